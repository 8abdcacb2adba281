// What was used, and by whom: calls, tokens, tokens saved, cost.
import { html, useState } from "../vendor/preact.js";
import { isAdmin, useData } from "../api.js";
import { Card, Empty, Loaded, Page, Table, Tabs, When, duration, number } from "../ui.js";

const KINDS = [["server", "By server"], ["tool", "By tool"], ["thread", "By thread"]];

export default function Usage() {
  const kinds = isAdmin() ? [["user", "By user"], ...KINDS] : KINDS;
  const [by, pick] = useState(kinds[0][0]);
  const usage = useData(`usage?by=${by}&limit=200`, { on: ["call"], often: 2000 });
  const stats = useData("stats", { on: ["call"], often: 2000 });
  return html`<${Page} title="Usage" lead=${html`<span>${isAdmin() ? "What everybody used" : "What you used"} ${usage.data && html`since <${When} at=${usage.data.since} />`}</span>`}>
    <${Loaded} from=${usage}>${({ usage: rows, count, total, limits }) => html`
      <div class="figures">${figures(total, stats.data).map(([title, value]) => html`<section class="card figure" key=${title} aria-label=${title}><h2>${title}</h2><p class="big">${value}</p></section>`)}</div>
      <${Limits} limits=${limits} />
      <${Tabs} label="Summed up" tabs=${kinds} at=${by} onPick=${pick} />
      ${rows.length ? html`<${Table} label="Usage" rows=${rows} id=${nameOf} columns=${COLUMNS} />${count > rows.length && html`<p class="quiet note">The first ${rows.length} of ${number(count)}.</p>`}` : html`<${Empty} title="Nothing was used yet" />`}`}<//>
  <//>`;
}

/** What one may use, and how much of it is left. */
function Limits({ limits }) {
  const names = Object.keys(limits);
  if (!names.length) return null;
  return html`<${Card} title="Your limits"><ul class="rows">${names.map((name) => {
    const { limit, used, resets } = limits[name];
    return html`<li key=${name}><b class="grow">${name.replace(/^thread\./, "of this thread: ").replaceAll("_", " ")}</b><meter class="share" min="0" max=${limit || 1} value=${used} aria-label=${`${name} used`}></meter><span class="quiet figures-small">${number(used)} of ${number(limit)}</span><span class="quiet figures-small">anew <${When} at=${resets} ahead /></span></li>`;
  })}</ul><//>`;
}

const nameOf = (one) => [one.user, one.thread, one.server, one.tool, one.name].filter(Boolean).join(" · ");
const tokens = (one) => (one.tokens_in ?? 0) + (one.tokens_out ?? 0) + (one.list_tokens ?? 0) + (one.search_tokens ?? 0);
const cost = (value) => (value ? value.toLocaleString("en", { maximumFractionDigits: 4 }) : "–");
const figures = (total, stats) => [
  ["Calls", number(total.calls)], ["Tokens", number(tokens(total))],
  ["Tokens saved since the start", number(stats?.tokens.saved)], ["Cost", cost(total.cost)],
];
const COLUMNS = [
  ["Name", (one) => html`<b class="strong cut">${nameOf(one) || "nobody in particular"}</b>`, "wide"],
  ["Calls", (one) => number(one.calls), "num"], ["Errors", (one) => number(one.errors ?? 0), "num"], ["Time", (one) => duration(one.seconds), "num"],
  ["Arguments", (one) => number(one.tokens_in ?? 0), "num"], ["Results", (one) => number(one.tokens_out ?? 0), "num"],
  ["Lists", (one) => number(one.list_tokens ?? 0), "num"], ["Searches", (one) => number(one.search_tokens ?? 0), "num"], ["Cost", (one) => cost(one.cost), "num"],
];
