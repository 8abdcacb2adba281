// One call, and its way through the stages.
import { html } from "../vendor/preact.js";
import { part, useData } from "../api.js";
import { Card, Empty, Loaded, Page, Problem, State, When, clock, duration, number, size } from "../ui.js";
import { errorOf } from "./calls.js";

export default function Call({ rest: [id] }) {
  const call = useData(`calls/${part(id)}`, { on: ["call"] });
  const one = call.data;
  return html`<${Page} title=${one ? one.name || one.tool : "Call"} back=${["#/calls", "Calls"]} lead=${one && html`<${State} is=${one.outcome} /><span>${duration(one.seconds)}</span><${When} at=${one.time} />`}>
    <${Loaded} from=${call}>${() => html`
      <${Problem} error=${errorOf(one) ? { message: errorOf(one) } : null} />
      <div class="two"><${Path} one=${one} /><${Card} title="Facts"><dl class="facts">${factsOf(one).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl><//></div>`}<//>
  <//>`;
}

function factsOf(one) {
  const link = (where, name) => name && html`<a href=${`#/${where}/${encodeURIComponent(name)}`}>${name}</a>`;
  return [
    ["Tool", link("tools", one.name || one.tool)], ["Server", link("servers", one.server)], ["Method", one.method], ["User", one.user], ["Thread", one.thread], ["Profile", one.profile],
    ["Program", one.program && html`<a href=${`#/calls?program=${encodeURIComponent(one.program)}`}>${one.program}</a>`], ["Client", one.client], ["Key", one.key], ["Began", one.time && clock(one.time)],
    ["Cost", one.cost], ["Bytes", one.bytes_in != null && `${size(one.bytes_in)} in, ${size(one.bytes_out)} out`], ["Tokens", one.tokens_in != null && `${number(one.tokens_in)} in, ${number(one.tokens_out)} out`],
    ["Trace", one.trace], ["Digest of the arguments", one.digest], ["Call", one.id],
  ].filter(([, value]) => value);
}

function Path({ one }) {
  const steps = one.path ?? [];
  return html`<${Card} title="Its way through the stages">${steps.length ? html`<ol class="path">${steps.map((step, index) => html`<li key=${index}><span class="at">+${step.seconds < 0.01 ? `${(step.seconds * 1000).toFixed(2)} ms` : duration(step.seconds)}</span><b>${step.what}</b><span class="quiet">${step.how}</span></li>`)}</ol>` : html`<${Empty} title="Nothing was noted on its way" />`}<//>`;
}
