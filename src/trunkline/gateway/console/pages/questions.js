// Questions that wait for you.
import { html, useState, useRef } from "../vendor/preact.js";
import { api, part, useData } from "../api.js";
import { Button, Card, Empty, Loaded, Page, Problem, When, say } from "../ui.js";
import { Question } from "../asked.js";
import { startOf } from "../form.js";

export default function Questions() {
  const questions = useData("questions", { on: ["question"] });
  return html`<${Page} title="Questions" lead="What tools and rules ask you before a call goes on.">
    <div aria-live="polite"><${Loaded} from=${questions}>${({ questions: all }) => (all.length ? all.map((one) => html`<${One} key=${one.id} one=${one} reload=${questions.reload} />`) : html`<${Empty} title="Nobody asks you anything">Questions of your calls show here, and can be answered here.<//>`)}<//></div>
  <//>`;
}

function One({ one, reload }) {
  const params = one.params;
  const [value, set] = useState(() => startOf(params.requestedSchema ?? {}) ?? {});
  const [error, setError] = useState(null);
  const form = useRef(null);
  const answer = (action) => async () => {
    if (action === "accept" && !form.current.reportValidity()) return;
    setError(null);
    try {
      await api("POST", `questions/${part(one.id)}`, { action, ...(action === "accept" && !params.url && { content: value }) });
      say("Answered.");
    } catch (failed) { setError(failed); }
    reload();
  };
  return html`<${Card} label=${`Question of ${one.tool ?? one.server}`}><form ref=${form} onSubmit=${(event) => { event.preventDefault(); answer("accept")(); }}>
    <p class="quiet">${[one.tool, one.server && `of ${one.server}`, one.client && `through ${one.client}`].filter(Boolean).join(" ")} · <${When} at=${one.asked} /> ${one.expires > 0 && html`· ends <${When} at=${one.expires} ahead />`}</p>
    <${Question} params=${params} id=${`q-${one.id}`} value=${value} onChange=${set} /><${Problem} error=${error} />
    <div class="actions start"><${Button} kind="primary" onClick=${answer("accept")}>${params.requestedSchema || params.url ? "Answer" : "Accept"}<//><${Button} onClick=${answer("decline")}>Decline<//><${Button} kind="plain" onClick=${answer("cancel")}>Cancel the call<//></div>
  </form><//>`;
}
