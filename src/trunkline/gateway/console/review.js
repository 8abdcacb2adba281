// What a server changed and nobody agreed to yet: what differs, and the decision.
import { html } from "./vendor/preact.js";
import { api, part } from "./api.js";
import { Button, Card, Chip, When, say, sure } from "./ui.js";

export function Reviews({ reviews, onDone }) {
  if (!reviews.length) return null;
  const decide = async (verb, one) => {
    if (verb === "reject" && !(await sure(`Hold ${one.name} for good?`, "It is neither listed nor called, whatever its server says.", "Hold it"))) return;
    await api("POST", `review/${part(one.server)}/${verb}`, { names: [one.name], digests: [one.digest] });
    say(verb === "approve" ? `${one.name} is approved.` : `${one.name} is held.`);
    onDone();
  };
  const held = reviews.every(isHeld);
  return html`<${Card} title=${held ? "Held" : "Waits for approval"} lead=${held ? "Somebody decided against it. It is neither listed nor called." : "Its server says something new. Nothing of it is used before somebody agrees."} kind=${held ? "" : "needs"}>
    ${reviews.map((one) => html`<article class="review" key=${`${one.kind} ${one.name}`}>
      <div class="card-head"><div><h3>${one.name}</h3><p class="quiet">${one.kind} of ${one.server} · <${When} at=${one.since} /></p></div>
        <div class="actions"><${Button} kind="small primary" onClick=${() => decide("approve", one)} label=${`Approve ${one.name}`}>Approve<//>${isHeld(one) ? html`<${Chip}>held<//>` : html`<${Button} kind="small danger" onClick=${() => decide("reject", one)} label=${`Hold ${one.name}`}>Hold<//>`}</div></div>
      <p class="chips">${[...(one.what ?? []), ...(one.why ?? [])].map((word, index) => html`<${Chip} kind="warn" key=${index}>${word}<//>`)}</p>
      ${one.evidence?.length > 0 && html`<ul class="plain quiet">${one.evidence.map((text, index) => html`<li key=${index}>${text}</li>`)}</ul>`}
      <${Diff} lines=${one.diff ?? []} />
    </article>`)}
  <//>`;
}

/** Whether somebody decided against it; what was not decided on yet waits for somebody. */
export const isHeld = (one) => one.state === "rejected";

export function Diff({ lines }) {
  if (!lines.length) return null;
  const kind = (line) => (/^(\+\+\+|---)/.test(line) ? "quiet" : { "+": "added", "-": "removed", "@": "quiet" }[line[0]]);
  return html`<pre class="diff" tabindex="0" aria-label="What changed">${lines.map((line, index) => html`<span key=${index} class=${kind(line)}>${line}${"\n"}</span>`)}</pre>`;
}
