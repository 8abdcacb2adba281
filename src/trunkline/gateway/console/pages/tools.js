// Every tool there is for you, and a playground: what a model finds when it searches, and why.
import { html, useEffect, useState } from "../vendor/preact.js";
import { query, useData, usePages } from "../api.js";
import { Chip, Empty, Loaded, Page, Pager, Search, Select, plural, useSettled } from "../ui.js";

const STRATEGIES = [["", "As configured"], ["regex", "Pattern"], ["bm25", "Words"], ["semantic", "Meaning"], ["hybrid", "Words and meaning"]];

export default function Tools({ search }) {
  const [text, setText] = useState(search.q ?? "");
  const [server, setServer] = useState(search.server ?? "");
  const [strategy, setStrategy] = useState("");
  const wanted = useSettled(text.trim());
  const servers = useData("servers").data?.servers ?? [];
  useEffect(() => { history.replaceState(null, "", "#/tools" + query({ q: wanted, server })); }, [wanted, server]);
  return html`<${Page} title="Tools" lead="Search as a model does, and see what it finds and why.">
    <div class="filters">
      <${Search} value=${text} onInput=${setText} label="What do you want to do?" />
      ${wanted ? html`<${Select} label="How to search" value=${strategy} onPick=${setStrategy} options=${STRATEGIES} />` : html`<${Select} label="Server" value=${server} onPick=${setServer} options=${[["", "Any server"], ...servers.map((one) => [one.name, one.name])]} />`}
    </div>
    ${wanted ? html`<${Found} wanted=${wanted} strategy=${strategy} />` : html`<${All} server=${server} />`}
  <//>`;
}

function All({ server }) {
  const pages = usePages("tools", { server, limit: 50 }, "tools", { on: ["tool", "server"] });
  return html`<${Loaded} from=${pages}>${({ tools, total }) => (tools.length ? html`<${ToolRows} tools=${tools} /><${Pager} pages=${pages} total=${total} shown=${tools.length} what="tool" />`
    : html`<${Empty} title="No tools yet" action=${html`<a class="button primary" href="#/add">Add a server</a>`}>Tools come with servers.<//>`)}<//>`;
}

function Found({ wanted, strategy }) {
  const found = useData(`tools${query({ q: wanted, strategy, limit: 25 })}`);
  return html`<${Loaded} from=${found}>${({ tools }) => {
    if (!tools.length) return html`<${Empty} title="Nothing fits">Say it in other words, or look at all tools.<//>`;
    const best = Math.max(...tools.map((one) => one.score ?? 0)) || 1;
    return html`<p class="quiet" role="status">${plural(tools.length, "tool")}, the best first${tools.some((one) => one.why?.words_alone) ? "; by their words alone, since what they mean was not known in time" : ""}</p>
      <ol class="ranking">${tools.map((one, index) => html`<li key=${one.name}>
        <span class="rank" aria-hidden="true">${index + 1}</span>
        <div class="grow"><a class="strong" href=${`#/tools/${encodeURIComponent(one.name)}`}>${one.name}</a><p class="quiet cut2">${one.description}</p><${Why} why=${one.why ?? {}} /></div>
        <div class="score"><span>${(one.score ?? 0).toFixed(2)}</span><meter min="0" max=${best} value=${one.score ?? 0} aria-label=${`Score of ${one.name}`}></meter></div>
      </li>`)}</ol>`;
  }}<//>`;
}

/** What speaks for a tool: the words that it has, what it means, and that it served before. */
function Why({ why: { words = [], fields = {}, shares = {}, meaning, learnt } }) {
  const share = (value) => `${Math.round(value * 100)} %`;
  return html`<p class="chips">${words.map((word) => html`<${Chip} kind="accent" key=${word} title=${`in its ${(fields[word] ?? []).join(", ")}`}>${word} ${share(shares[word] ?? 0)}<//>`)}
    ${meaning > 0 && html`<${Chip}>meaning ${share(meaning)}<//>`}${learnt > 0 && html`<${Chip}>served lately ${share(learnt)}<//>`}</p>`;
}

/** Tools in a list, each with a link to its page. */
export function ToolRows({ tools }) {
  return html`<ul class="rows tools">${tools.map((one) => html`<li key=${one.name}>
    <div class="grow"><a class="strong" href=${`#/tools/${encodeURIComponent(one.name)}`}>${one.name}</a><p class="quiet cut2">${one.description || "It says nothing of itself."}</p></div>
    <span class="chips"><${Marks} tool=${one} /></span></li>`)}</ul>`;
}

export function Marks({ tool }) {
  return html`${tool.changed?.length > 0 && html`<${Chip} kind="warn" title=${tool.changed.join(", ")}>changed<//>`}
    ${tool.held && html`<${Chip} kind="warn">held<//>`}
    ${tool.read_only === true && html`<${Chip} kind="ok">reads<//>`}
    ${tool.destructive === true && html`<${Chip} kind="bad">destroys<//>`}
    ${tool.read_only === false && !tool.destructive && html`<${Chip}>writes<//>`}`;
}
