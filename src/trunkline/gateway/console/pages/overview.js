// What needs you, how it goes, and the address to give to clients.
import { html, useState } from "../vendor/preact.js";
import { Chart } from "../chart.js";
import { me, useData } from "../api.js";
import { Button, Card, Code, Copy, Icon, Loaded, Page, Select, State, Tabs, Words, duration, number, plural } from "../ui.js";

const RANGES = [["1h", "1 hour"], ["24h", "24 hours"], ["7d", "7 days"]];

const signIn = async (server) => (await import("../signing.js")).signIn(server);

export default function Overview() {
  const servers = useData("servers", { on: ["server", "tool"] });
  const stats = useData("stats", { on: ["call"], often: 1500 });
  const [range, setRange] = useState("1h");
  const series = useData(`series?range=${range}`, { on: ["call"], often: 1500 });
  const needs = {
    questions: useData("questions", { on: ["question"] }).data?.questions ?? [],
    review: useData("review", { on: ["tool", "server"] }).data?.review ?? [],
    connections: useData("connections", { on: ["sign-in", "server"] }).data?.connections ?? [],
  };
  const none = servers.data && !servers.data.servers.length;
  const pick = html`<${Select} label="Over the last" value=${range} onPick=${setRange} options=${RANGES} />`;
  return html`<${Page} title="Overview" actions=${none ? null : pick}>
    <${Loaded} from=${servers}>${({ servers: all }) => (all.length ? html`
      <${Needs} servers=${all} ...${needs} />
      <${Figures} data=${series.data} stats=${stats.data} />
      <div class="two">
        <${Fleet} servers=${all} />
        <${Connect} />
      </div>` : html`<${Welcome} />`)}<//>
  <//>`;
}

function Welcome() {
  return html`<${Card} kind="welcome" title="Nothing is behind this gateway yet" lead="Add a server; its tools are there to call a moment later.">
    <div class="choices">
      <a class="choice" href="#/add?from=address"><b>By its address</b><span class="quiet">A server that runs elsewhere, at an https address</span></a>
      <a class="choice" href="#/add?from=registry"><b>From the registry</b><span class="quiet">Search thousands of published servers</span></a>
      <a class="choice" href="#/add?from=clients"><b>From your clients</b><span class="quiet">What Claude, Cursor or VS Code already have</span></a>
    </div><//>
    <${Connect} />`;
}

function Needs({ servers, questions, review, connections }) {
  const sick = servers.filter((one) => ["unreachable", "degraded"].includes(one.state));
  const locked = servers.filter((one) => one.state === "needs-authorization");
  const lapsed = connections.filter((one) => one.state !== "signed-in" && !locked.some((other) => other.name === one.server));
  const held = [...Map.groupBy(review.filter((one) => one.state !== "rejected"), (one) => one.server)];
  const items = [
    ...questions.map((one) => [`q${one.id}`, "asked", one.params.message || "A question", `${one.tool || ""} ${one.server ? `of ${one.server}` : ""}`, html`<a class="button small primary" href="#/questions">Answer</a>`]),
    ...locked.map((one) => [`l${one.name}`, one.state, one.name, one.reason, html`<${Button} kind="small primary" onClick=${() => signIn(one.name)}>Sign in<//>`]),
    ...lapsed.map((one) => [`c${one.server}`, "waiting", one.server, one.reason || "Its sign-in has ended", html`<${Button} kind="small primary" onClick=${() => signIn(one.server)}>Sign in<//>`]),
    ...sick.map((one) => [`s${one.name}`, one.state, one.name, one.reason, html`<a class="button small" href=${`#/servers/${encodeURIComponent(one.name)}`}>Look</a>`]),
    ...held.map(([server, all]) => [`r${server}`, "changed", server, `${plural(all.length, "change")} of what it offers ${all.length === 1 ? "waits" : "wait"} for approval`, html`<a class="button small" href=${`#/servers/${encodeURIComponent(server)}`}>Review</a>`]),
  ];
  if (!items.length) return html`<p class="calm" role="status"><${Icon} name="done" />Nothing needs you.</p>`;
  return html`<${Card} title="Needs you" kind="needs"><ul class="rows" aria-live="polite">${items.map(([key, state, name, text, action]) => html`<li key=${key}>
    <${State} is=${state} /><span class="grow"><b class="cut">${name}</b><span class="quiet cut2"><${Words} text=${text} /></span></span>${action}</li>`)}</ul><//>`;
}

function Figures({ data, stats }) {
  const lines = data && linesOf(data);
  const figures = figuresOf(data, stats);
  return html`<div class="figures">${figures.map(({ title, value, note, name, format }) => html`<section class="card figure" key=${title} aria-label=${title}>
    <h2>${title}</h2><p class="big">${value}</p><p class="quiet">${note}</p>
    ${data && html`<${Chart} label=${title} times=${lines.times} lines=${lines[name]} format=${format} />`}
  </section>`)}</div>`;
}

const made = new WeakMap();
function linesOf(data) {
  if (made.has(data)) return made.get(data);
  const where = (values) => values.map((one, index) => (data.calls[index] ? one : null)); // no calls took no time
  const lines = {
    times: data.calls.map((_, index) => data.from + index * data.step),
    calls: [{ label: "Calls", values: data.calls, kind: "accent", fill: true }],
    errors: [{ label: "Errors", values: data.errors, kind: "bad", fill: true }],
    latency: [{ label: "Half within", values: where(data.p50), kind: "accent" }, { label: "95 % within", values: where(data.p95), kind: "warn" }],
    saved: [{ label: "Tokens saved", values: data.saved, kind: "ok", fill: true }],
  };
  made.set(data, lines);
  return lines;
}

function figuresOf(data, stats) {
  const sum = (values) => values.reduce((all, one) => all + (one ?? 0), 0);
  const calls = data ? sum(data.calls) : stats?.calls;
  const errors = data ? sum(data.errors) : stats && stats.failures + stats.tool_errors;
  const share = calls ? `${((errors / calls) * 100).toFixed(errors && errors / calls < 0.1 ? 1 : 0)} % of calls` : "No calls yet";
  const since = data ? "" : stats ? `since the start, ${duration(stats.seconds)} ago` : "";
  return [
    { title: "Calls", value: number(calls), note: stats?.in_flight ? `${number(stats.in_flight)} under way` : since || "None under way", name: "calls", format: number },
    { title: "Errors", value: number(errors), note: share, name: "errors", format: number },
    { title: "Time of a call", value: duration(stats?.calls ? stats.p50_seconds : null), note: stats?.calls ? `95 % within ${duration(stats.p95_seconds)}, since the start` : "No calls yet", name: "latency", format: duration },
    { title: "Tokens saved", value: number(data ? sum(data.saved) : stats?.tokens.saved), note: "of tool definitions and results", name: "saved", format: number },
  ];
}

function Fleet({ servers }) {
  const order = ["unreachable", "needs-authorization", "degraded", "starting", "ready", "stopped"];
  const sorted = [...servers].sort((one, other) => order.indexOf(one.state) - order.indexOf(other.state) || (other.calls ?? 0) - (one.calls ?? 0));
  const tools = servers.reduce((sum, one) => sum + (one.tools ?? 0), 0);
  return html`<${Card} title="Servers" lead=${`${plural(servers.length, "server")}, ${plural(tools, "tool")}`} actions=${html`<a class="button small" href="#/add"><${Icon} name="plus" />Add</a>`}>
    <ul class="rows fleet">${sorted.slice(0, 8).map((one) => html`<li key=${one.name}><a class="grow cut" href=${`#/servers/${encodeURIComponent(one.name)}`}>${one.name}</a><span class="quiet figures-small">${plural(one.tools ?? 0, "tool")}</span><${State} is=${one.state} /></li>`)}</ul>
    ${servers.length > 8 && html`<p><a href="#/servers">All ${number(servers.length)}</a></p>`}
  <//>`;
}

function Connect() {
  const [client, pick] = useState("claude");
  const { address, needs_key: locked } = me.value;
  const url = address || `${location.origin}/mcp`;
  const header = { Authorization: "Bearer YOUR-KEY" };
  const written = (shape) => JSON.stringify(shape, null, 2);
  const texts = {
    claude: `claude mcp add --transport http trunkline ${url}${locked ? ' --header "Authorization: Bearer YOUR-KEY"' : ""}`,
    cursor: written({ mcpServers: { trunkline: { url, ...(locked && { headers: header }) } } }),
    vscode: written({ servers: { trunkline: { type: "http", url, ...(locked && { headers: header }) } } }),
    python: `from trunkline import open_hub\n\nasync with open_hub("trunkline.toml") as hub:\n    tools = await hub.find("what you want to do")`,
  };
  const where = { claude: "In a terminal", cursor: "In ~/.cursor/mcp.json", vscode: "In .vscode/mcp.json", python: "Without the gateway, as a library" };
  return html`<${Card} title="Connect a client" lead="One address for all tools.">
    <div class="address"><code>${url}</code><${Copy} text=${url} label="Copy the address" /></div>
    <${Tabs} label="Client" tabs=${[["claude", "Claude Code"], ["cursor", "Cursor"], ["vscode", "VS Code"], ["python", "Python"]]} at=${client} onPick=${pick} />
    <p class="quiet">${where[client]}</p>
    <${Code} text=${texts[client]} label=${`Setting for ${client}`} />
    ${locked && html`<p class="quiet">Make a key of your own under <a href="#/keys">Keys</a>.</p>`}
  <//>`;
}
