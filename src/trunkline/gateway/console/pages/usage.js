// What was used, and by whom: calls, tokens, tokens saved, cost.
import { html, useState } from "../vendor/preact.js";
import { isAdmin, query, useData } from "../api.js";
import { Empty, Loaded, Page, Select, Table, Tabs, duration, number } from "../ui.js";

const SINCE = [["", "All time"], ["86400", "1 day"], ["604800", "1 week"], ["2592000", "30 days"]];

export default function Usage() {
  const kinds = [...(isAdmin() ? [["user", "By user"]] : []), ["server", "By server"], ["tool", "By tool"], ["thread", "By thread"]];
  const [by, pick] = useState(kinds[0][0]);
  const [since, setSince] = useState("");
  const [now] = useState(() => Math.floor(Date.now() / 1000));
  const usage = useData(`usage${query({ by, since: since && String(now - Number(since)) })}`, { on: ["call"], often: 2000 });
  return html`<${Page} title="Usage" lead=${isAdmin() ? "What everybody used." : "What you used."} actions=${html`<${Select} label="Since" value=${since} onPick=${setSince} options=${SINCE} />`}>
    <${Loaded} from=${usage}>${({ rows, total = {} }) => html`
      <div class="figures">${FIGURES.map(([title, value]) => html`<section class="card figure" key=${title} aria-label=${title}><h2>${title}</h2><p class="big">${value(total)}</p></section>`)}</div>
      <${Tabs} label="Summed up" tabs=${kinds} at=${by} onPick=${pick} />
      ${rows.length ? html`<${Table} label="Usage" rows=${rows.slice(0, 200)} id=${(one) => one.name} columns=${COLUMNS} />` : html`<${Empty} title="Nothing was used yet" />`}`}<//>
  <//>`;
}

const sum = (one) => (one.tokens_lists ?? 0) + (one.tokens_results ?? 0) + (one.tokens_searches ?? 0);
const cost = (value) => (value ? value.toLocaleString("en", { maximumFractionDigits: 4 }) : "–");
const FIGURES = [["Calls", (all) => number(all.calls)], ["Tokens", (all) => number(sum(all))], ["Tokens saved", (all) => number(all.tokens_saved)], ["Cost", (all) => cost(all.cost)]];
const COLUMNS = [
  ["Name", (one) => html`<b class="strong cut">${one.name || "nobody in particular"}</b>`, "wide"],
  ["Calls", (one) => number(one.calls), "num"], ["Errors", (one) => number(one.errors ?? 0), "num"], ["Time", (one) => duration(one.seconds), "num"],
  ["Lists", (one) => number(one.tokens_lists ?? 0), "num"], ["Results", (one) => number(one.tokens_results ?? 0), "num"], ["Searches", (one) => number(one.tokens_searches ?? 0), "num"],
  ["Saved", (one) => number(one.tokens_saved ?? 0), "num"], ["Cost", (one) => cost(one.cost), "num"],
];
