// For whoever is not let in yet: a key, or an identity provider.
import { html, useState } from "../vendor/preact.js";
import { api, loadMe, me } from "../api.js";
import { Logo, Problem } from "../ui.js";

export default function SignIn() {
  const [key, setKey] = useState("");
  const [error, setError] = useState(null);
  const enter = async (event) => {
    event.preventDefault();
    try {
      await api("POST", "session", { key: key.trim() });
      await loadMe();
    } catch (failed) { setError(failed.status === 401 ? { message: "This key lets nobody in.", hint: "It may have ended, or been revoked." } : failed); }
  };
  const issuers = me.value.issuers ?? [];
  const named = (one) => (typeof one === "string" ? one : one.name);
  return html`<div class="sign-in"><${Logo} /><h1 tabindex="-1">Sign in to Trunkline</h1>
    ${issuers.map((one) => html`<a key=${named(one)} class="button primary" href=${`/console/sign-in/${encodeURIComponent(named(one))}`}>Continue with ${one.title ?? named(one)}</a>`)}
    ${issuers.length > 0 && html`<p class="or">or</p>`}
    <form class="fields" onSubmit=${enter}>
      <label class="field"><span class="field-label">Key</span><span class="quiet">One of <code>trunkline key create</code>, or the gateway's token.</span><input type="password" required value=${key} onInput=${(event) => setKey(event.target.value)} autocomplete="current-password" /></label>
      <${Problem} error=${error} />
      <button class=${`button ${issuers.length ? "" : "primary"}`} type="submit">Sign in</button>
    </form></div>`;
}
