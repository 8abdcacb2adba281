// Calls, those under way and those that were: one's own, or everybody's for admins.
import { html, useState } from "../vendor/preact.js";
import { isAdmin, useData, usePages } from "../api.js";
import { Button, Empty, Loaded, Page, Pager, Select, State, Table, When, duration, useSettled } from "../ui.js";

const OUTCOMES = ["answered", "tool-error", "failed", "refused", "cancelled", "asked", "running"];
const SINCE = [["", "Any time"], ["900", "15 minutes"], ["3600", "1 hour"], ["86400", "1 day"], ["604800", "1 week"]];
const LONGER = [["", "Any duration"], ["0.1", "100 ms or longer"], ["1", "1 s or longer"], ["10", "10 s or longer"], ["60", "1 min or longer"]];

export default function Calls({ search }) {
  const [wanted, set] = useState({ server: "", tool: "", user: "", outcome: "", since: "", longer: "", program: "", ...search });
  const put = (name) => (value) => set({ ...wanted, [name]: value });
  const servers = useData("servers").data?.servers ?? [];
  const settled = useSettled(wanted, 250);
  const [began] = useState(() => Math.floor(Date.now() / 1000));
  const asked = { ...settled, since: settled.since && String(began - Number(settled.since)), limit: 50 };
  const pages = usePages("calls", asked, "calls", { on: ["call"], often: 600 });
  const text = (name, label) => html`<label><span class="hidden">${label}</span><input value=${wanted[name]} placeholder=${label} onInput=${(event) => put(name)(event.target.value)} autocomplete="off" spellcheck=${false} /></label>`;
  const filtered = Object.values(wanted).some(Boolean);
  return html`<${Page} title="Calls" lead=${isAdmin() ? "Everybody's calls, the newest first." : "Your calls, the newest first."}>
    <div class="filters">
      <${Select} label="Server" value=${wanted.server} onPick=${put("server")} options=${[["", "Any server"], ...servers.map((one) => [one.name, one.name])]} />
      ${text("tool", "Tool")}${isAdmin() && text("user", "User")}
      <${Select} label="Outcome" value=${wanted.outcome} onPick=${put("outcome")} options=${[["", "Any outcome"], ...OUTCOMES.map((one) => [one, one.replace("-", " ")])]} />
      <${Select} label="Since" value=${wanted.since} onPick=${put("since")} options=${SINCE} />
      <${Select} label="Duration" value=${wanted.longer} onPick=${put("longer")} options=${LONGER} />
      ${text("program", "Program")}
      ${filtered && html`<${Button} kind="small plain" icon="close" onClick=${() => set(Object.fromEntries(Object.keys(wanted).map((name) => [name, ""])))}>Clear<//>`}
    </div>
    <${Loaded} from=${pages}>${({ calls }) => (calls.length ? html`<${Table} label="Calls" rows=${calls} id=${(one) => one.id} columns=${COLUMNS.filter(([title]) => title !== "User" || isAdmin())} /><${Pager} pages=${pages} what="call" />`
      : html`<${Empty} title=${filtered ? "No call fits" : "No calls yet"} action=${!filtered && html`<a class="button" href="#/tools">Try a tool</a>`}>${filtered ? "" : "They show here as they happen."}<//>`)}<//>
  <//>`;
}

const COLUMNS = [
  ["Tool", (one) => html`<a class="strong cut" href=${`#/calls/${encodeURIComponent(one.id)}`}>${one.name || one.tool}</a><span class="quiet cut">${[one.server, one.client, one.program && "in a program"].filter(Boolean).join(" · ")}</span>`, "wide"],
  ["Outcome", (one) => html`<${State} is=${one.outcome} />${errorOf(one) && html`<span class="quiet cut2">${errorOf(one)}</span>`}`, "state-cell"],
  ["User", (one) => one.user || "–"],
  ["Duration", (one) => duration(one.seconds), "num"],
  ["When", (one) => html`<${When} at=${one.time} />`, "num"],
];

/** What went wrong, in words. */
export const errorOf = (one) => (typeof one.error === "object" ? one.error?.message : one.error) ?? "";
