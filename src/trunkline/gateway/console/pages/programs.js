// Programs over tools that run, wait or ran.
import { html } from "../vendor/preact.js";
import { api, isAdmin, part, useData } from "../api.js";
import { Button, Card, Chip, Code, Empty, Loaded, Page, Problem, State, When, duration, plural, say } from "../ui.js";

export default function Programs() {
  const programs = useData("programs", { on: ["program", "call"], often: 800 });
  const stop = (one) => async () => { await api("DELETE", `programs/${part(one.id)}`); say("It was stopped."); programs.reload(); };
  return html`<${Page} title="Programs" lead="Code that models wrote over tools, run in a sandbox.">
    <${Loaded} from=${programs}>${({ programs: all }) => (all.length ? all.map((one) => html`<${Card} key=${one.id} title=${html`<${State} is=${one.state} />`} lead=${html`${isAdmin() && one.user ? `${one.user} · ` : ""}<${When} at=${one.started} /> · ${duration(one.seconds)} · ${plural(one.calls ?? 0, "call")}`}
        actions=${html`${one.calls > 0 && html`<a class="button small" href=${`#/calls?program=${encodeURIComponent(one.id)}`}>Its calls</a>`}${["running", "waiting"].includes(one.state) && html`<${Button} kind="small danger" onClick=${stop(one)}>Stop<//>`}`}>
        ${one.state === "waiting" && html`<p class="quiet">It waits for whoever runs it to agree to these calls, in the client that they run it with${one.expires > 0 && html`; until then it is kept, and ends <${When} at=${one.expires} ahead />`}.</p>`}
        ${one.tools?.length > 0 && html`<p class="chips">${one.tools.map((name, index) => html`<${Chip} key=${index}>${name}<//>`)}</p>`}
        ${one.error && html`<${Problem} error=${{ message: typeof one.error === "string" ? one.error : one.error.message }} />`}
        ${one.code && html`<details><summary>Its code</summary><${Code} text=${one.code} label="Code of the program" /></details>`}<//>`)
      : html`<${Empty} title="No programs run">A model that writes code over tools has it run here, where you can watch and stop it.<//>`)}<//>
  <//>`;
}
