// Every server there is for you, and how it fares.
import { html, useState } from "../vendor/preact.js";
import { me, useData } from "../api.js";
import { Empty, Icon, Loaded, Page, Search, Select, State, Table, Words, duration, number, plural } from "../ui.js";

const MOST = 200;

export default function Servers() {
  const servers = useData("servers", { on: ["server", "call"], often: 1000 });
  const [text, setText] = useState("");
  const [state, setState] = useState("");
  const add = me.value.can?.add_servers !== false && html`<a class="button primary" href="#/add"><${Icon} name="plus" />Add a server</a>`;
  return html`<${Page} title="Servers" actions=${add}>
    <${Loaded} from=${servers}>${({ servers: all }) => {
      if (!all.length) return html`<${Empty} title="No servers yet" action=${add}>Add one, and its tools are there to call.<//>`;
      const fits = all.filter((one) => (!state || one.state === state) && `${one.name} ${one.address} ${one.reason}`.toLowerCase().includes(text.toLowerCase()));
      const states = [...new Set(all.map((one) => one.state))];
      return html`
        <div class="filters"><${Search} value=${text} onInput=${setText} label="Search servers" /><${Select} label="State" value=${state} onPick=${setState} options=${[["", "Any state"], ...states.map((one) => [one, one])]} /><span class="quiet" role="status">${plural(fits.length, "server")}</span></div>
        ${fits.length ? html`<${Table} label="Servers" rows=${fits.slice(0, MOST)} id=${(one) => one.name} columns=${COLUMNS} />` : html`<${Empty} title="No server fits" />`}
        ${fits.length > MOST && html`<p class="quiet">The first ${MOST} are shown: search to see others.</p>`}`;
    }}<//>
  <//>`;
}

const COLUMNS = [
  ["Server", (one) => html`<a class="strong cut" href=${`#/servers/${encodeURIComponent(one.name)}`}>${one.name}</a><span class="quiet cut" title=${one.address}>${one.address}</span>`, "wide"],
  ["State", (one) => html`<${State} is=${one.state} />${one.reason && html`<span class="quiet cut2" title=${one.reason}><${Words} text=${one.reason} /></span>`}`, "state-cell"],
  ["Tools", (one) => number(one.tools ?? 0), "num"],
  ["Calls", (one) => number(one.calls ?? 0), "num"],
  ["Answered", (one) => (one.calls ? `${Math.round((one.success_rate ?? 1) * 100)} %` : "–"), "num"],
  ["Average", (one) => (one.calls ? duration(one.average_seconds) : "–"), "num"],
];
