// One tool: what it says of itself, how it behaves and why we think so, and a place to try it.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { callTool, me, part, useData } from "../api.js";
import { Button, Card, Chip, Code, Json, Loaded, Page, Problem, Tabs, duration, number, plural } from "../ui.js";
import { Arguments, startOf } from "../form.js";
import { Asked } from "../asked.js";
import { Result } from "../result.js";
import { Reviews } from "../review.js";
import { Marks } from "./tools.js";

export default function Tool({ rest: [name] }) {
  const tool = useData(`tools/${part(name)}`, { on: ["tool"] });
  const server = tool.data?.server;
  const review = useData(server ? `review?server=${part(server)}` : null, { on: ["tool"] });
  const own = (review.data?.review ?? []).filter((one) => one.name === name || name.endsWith(`__${one.name}`));
  return html`<${Page} title=${name} back=${["#/tools", "Tools"]} lead=${tool.data && html`<span>${tool.data.title && tool.data.title !== name ? `${tool.data.title}, ` : ""}of <a href=${`#/servers/${encodeURIComponent(server)}`}>${server}</a></span> <span class="chips"><${Marks} tool=${tool.data} /></span>`}>
    <${Loaded} from=${tool}>${(one) => html`
      <${Reviews} reviews=${own} onDone=${() => { review.reload(); tool.reload(); }} />
      <p class="said">${one.description || one.definition?.description}</p>
      <div class="two tool">
        <${TryIt} tool=${one} />
        <div class="stack"><${Behaviour} tool=${one} /><${Definition} definition=${one.definition} /></div>
      </div>`}<//>
  <//>`;
}

function TryIt({ tool }) {
  const schema = tool.definition?.inputSchema ?? { type: "object" };
  const [values, setValues] = useState(() => startOf(schema) ?? {});
  const [now, set] = useState({});
  const abort = useRef(null);
  const form = useRef(null);
  useEffect(() => () => abort.current?.abort(), []);
  const run = async (more = {}) => {
    if (now.running || (!more.state && !form.current.reportValidity())) return;
    if (more.state) form.current.querySelector("[type=submit]").focus({ preventScroll: true }); // what was pressed goes with its question
    abort.current = new AbortController();
    const begun = performance.now();
    const told = [];
    set({ running: true, told });
    const hear = (event) => { told.push(event); if (told.length > 200) told.shift(); set({ running: true, told: [...told] }); };
    try {
      const result = await callTool(tool.name, { arguments: values, ...more }, hear, abort.current.signal);
      set({ result, told, seconds: (performance.now() - begun) / 1000 });
    } catch (error) {
      set(error.name === "AbortError" ? { told, stopped: true } : { error, told, seconds: (performance.now() - begun) / 1000 });
    }
  };
  const asks = now.result?.resultType === "input_required";
  return html`<${Card} title="Try it" kind="try">
    <form ref=${form} onSubmit=${(event) => { event.preventDefault(); run(); }}>
      <${Arguments} schema=${schema} value=${values} onChange=${setValues} />
      <div class="actions start"><button class="button primary" type="submit" aria-disabled=${now.running ? "true" : undefined}>${now.running ? "Calling…" : "Call"}</button>
        ${now.running && html`<${Button} onClick=${() => abort.current.abort()}>Stop<//>`}
        ${tool.destructive && html`<span class="quiet">This may destroy something.</span>`}</div>
    </form>
    <div class="answer" aria-live="polite">
      <${Told} told=${now.told ?? []} running=${now.running} />
      ${now.stopped && html`<p class="quiet">Stopped.</p>`}
      <${Problem} error=${now.error} />
      ${asks && html`<${Asked} questions=${now.result.questions ?? {}} onAnswer=${(answers) => run({ state: now.result.state, answers })} />`}
      ${now.result && !asks && html`<div class="card-head"><h3>Result</h3><span class="quiet">${duration(now.seconds)}</span></div><${Result} result=${now.result} />`}
    </div>
    <${Same} name=${tool.name} values=${values} />
  <//>`;
}

function Told({ told, running }) {
  const progress = told.findLast((one) => one.type === "progress")?.data;
  const logs = told.filter((one) => one.type === "message" || one.type === "log").slice(-20);
  if (!running && !logs.length) return null;
  const share = progress?.total ? Math.min(1, progress.progress / progress.total) : undefined;
  return html`${running && html`<div class="progress"><progress max="1" value=${share} aria-label="Progress"></progress>${progress && html`<span class="quiet">${progress.message ?? (progress.total ? `${number(progress.progress)} of ${number(progress.total)}` : number(progress.progress))}</span>`}</div>`}
    ${logs.length > 0 && html`<pre class="log" tabindex="0" aria-label="Log messages">${logs.map(({ data }) => `${data.level ?? "info"} ${data.logger ? data.logger + ": " : ""}${typeof data.data === "string" ? data.data : JSON.stringify(data.data)}\n`)}</pre>`}`;
}

// The same call elsewhere: quoted for the shell, and as Python writes values.

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

function python(value, indent = "") {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = indent + "    ";
  if (Array.isArray(value)) return value.length ? `[${value.map((one) => python(one, indent)).join(", ")}]` : "[]";
  const members = Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${python(one, inner)}`);
  return members.join(", ").length < 70 ? `{${members.join(", ")}}` : `{\n${inner}${members.join(`,\n${inner}`)},\n${indent}}`;
}

export function sameCall(name, values, locked, origin) {
  const key = locked ? " -H 'Authorization: Bearer YOUR-KEY'" : "";
  const body = JSON.stringify({ arguments: values });
  return {
    curl: `curl -sS ${origin}/api/v1/tools/${encodeURIComponent(name)}/call${key} \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(body)}`,
    python: `from trunkline import open_hub\n\nasync with open_hub("trunkline.toml") as hub:\n    result = await hub.call(${JSON.stringify(name)}, ${python(values, "    ")})`,
    command: `trunkline exec ${/^[\w-]+$/.test(name) ? name : quoted(name)}${Object.keys(values).length ? ` --params ${quoted(JSON.stringify(values))}` : ""}`,
  };
}

function Same({ name, values }) {
  const [kind, pick] = useState("curl");
  const texts = sameCall(name, values, me.value.needs_key, location.origin);
  return html`<details class="same"><summary>The same call elsewhere</summary>
    <${Tabs} label="Kind" tabs=${[["curl", "curl"], ["python", "Python"], ["command", "Command line"]]} at=${kind} onPick=${pick} />
    <${Code} text=${texts[kind]} label=${`The call with ${kind}`} /></details>`;
}

const NAMES = { readOnlyHint: "Only reads", destructiveHint: "May destroy", idempotentHint: "May be repeated", openWorldHint: "Reaches out", volatileHint: "Changes by itself" };
const FROM = { config: "as configured", server: "as its server says", inferred: "as its words tell" };
const plainName = (name) => NAMES[name] ?? NAMES[name.replace(/_(.)/g, (_, one) => one.toUpperCase())] ?? name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");

function Behaviour({ tool }) {
  const stats = tool.statistics;
  const list = (names) => names?.length && html`<span class="chips">${names.map((one, index) => html`<${Chip} key=${index}>${String(one)}<//>`)}</span>`;
  const rows = [
    ...Object.entries(tool.annotations ?? {}).map(([name, one]) => [plainName(name), html`${shownValue(one.value)} <span class="quiet">· ${FROM[one.from]}${one.evidence?.length > 0 && `: ${one.evidence.join(" ")}`}</span>`]),
    ["Safety", tool.safety], ["Category", tool.category], ["Definition", tool.tokens && `about ${plural(tool.tokens, "token")}`],
    ["Calls", stats?.calls && `${number(stats.calls)}, ${number(stats.failures + stats.tool_errors)} failed`],
    ["Time", stats?.calls && `half within ${duration(stats.p50_seconds)}, 95 % within ${duration(stats.p95_seconds)}`],
    ["Held", tool.held], ["Changed", list(tool.changed)], ["Callers", list(tool.callers)], ["Servers that have it", list(tool.members)],
    ["Lists", tool.deferred && "leave it out: it is searched for"],
    ...Object.entries(tool.options ?? {}).filter(([name]) => !(name in (tool.annotations ?? {}))).map(([name, value]) => [plainName(name), shownValue(value)]),
  ].filter(([, value]) => value);
  if (!rows.length) return null;
  return html`<${Card} title="Behaviour" lead="As its server says, as it is configured, and as its words tell."><dl class="facts">${rows.map(([name, value], index) => html`<div key=${index}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl><//>`;
}

const shownValue = (value) => (value === true ? "yes" : value === false ? "no" : typeof value === "object" ? JSON.stringify(value) : String(value));

function Definition({ definition = {} }) {
  const [what, pick] = useState("inputSchema");
  const kinds = [["inputSchema", "Arguments"], ...(definition.outputSchema ? [["outputSchema", "Result"]] : []), ["all", "All"]];
  return html`<${Card} title="Definition"><${Tabs} label="Part of the definition" tabs=${kinds} at=${what} onPick=${pick} />
    <${Json} value=${what === "all" ? definition : definition[what] ?? {}} label="Definition" /><//>`;
}
