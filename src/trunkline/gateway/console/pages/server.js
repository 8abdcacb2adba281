// One server: how it fares and why, what to do about it, its log, and its tools.
import { html, useState } from "../vendor/preact.js";
import { api, isAdmin, me, part, useData, usePages } from "../api.js";
import { Button, Card, Chip, Code, Empty, Loaded, Pager, Page, Problem, State, Tabs, When, Words, duration, number, plural, say, sure } from "../ui.js";
import { Reviews } from "../review.js";
import { signIn } from "../signing.js";
import { ToolRows } from "./tools.js";

export default function Server({ rest: [name], search }) {
  const server = useData(`servers/${part(name)}`, { on: ["server", "call"], often: 800 });
  const [tab, setTab] = useState(search.tab ?? "tools");
  const review = useData(`review${`?server=${part(name)}`}`, { on: ["tool", "server"] });
  return html`<${Page} title=${name} back=${["#/servers", "Servers"]} lead=${server.data && html`<${State} is=${server.data.state} /><span class="reason"><${Words} text=${server.data.reason} /></span>`} actions=${server.data && html`<${Steering} server=${server.data} name=${name} reload=${server.reload} />`}>
    <${Loaded} from=${server}>${(one) => html`
      <${Reviews} reviews=${review.data?.review ?? []} onDone=${() => { review.reload(); server.reload(); }} />
      <${Facts} one=${one} />
      <${Tabs} label="About this server" at=${tab} onPick=${setTab} tabs=${[["tools", `Tools ${number(one.tools ?? 0)}`], ["check", "Check"], ["log", "Log"]]} />
      ${tab === "tools" && html`<${Tools} name=${name} state=${one.state} waits=${review.data?.review?.length > 0} />`}
      ${tab === "check" && html`<${Check} name=${name} reload=${() => { server.reload(); review.reload(); }} />`}
      ${tab === "log" && html`<${Log} name=${name} />`}`}<//>
  <//>`;
}

function Steering({ server, name, reload }) {
  const own = isAdmin() || (server.scope === "user" && server.user === me.value.user);
  const can = { restart: own, switch: own, remove: own && Boolean(server.version) };
  const off = server.enabled === false || server.state === "stopped";
  const act = (verb, told) => async () => { await api("POST", `servers/${part(name)}/${verb}`); say(told); reload(); };
  const remove = async () => {
    if (!(await sure(`Remove ${name}?`, "Its tools are gone for everybody who has them. What it keeps itself stays.", "Remove"))) return;
    await api("DELETE", `servers/${part(name)}${server.scope ? `?scope=${server.scope}` : ""}`);
    say(`${name} is removed.`);
    location.hash = "#/servers";
  };
  return html`
    ${(server.sign_in?.needed || server.state === "needs-authorization") && html`<${Button} kind="primary" onClick=${async () => { await signIn(name); reload(); }}>Sign in<//>`}
    ${can.restart && !off && html`<${Button} onClick=${act("restart", `${name} starts anew.`)}>Restart<//>`}
    ${can.switch && (off ? html`<${Button} kind="primary" onClick=${act("enable", `${name} is switched on.`)}>Switch on<//>` : html`<${Button} onClick=${act("disable", `${name} is switched off.`)}>Switch off<//>`)}
    ${can.remove && html`<${Button} kind="danger" onClick=${remove}>Remove<//>`}`;
}

function Facts({ one }) {
  const facts = [
    ["Address", one.address || one.url || one.command], ["Transport", one.transport], ["Protocol", one.protocol],
    ["Calls", one.calls != null && `${number(one.calls)}, ${Math.round((one.success_rate ?? 1) * 100)} % answered, ${duration(one.average_seconds)} on average`],
    ["Under way", one.in_flight || one.waiting ? `${number(one.in_flight)}, ${number(one.waiting)} waiting` : ""],
    ["Offers", [[one.tools, "tool"], [one.prompts, "prompt"], [one.resources, "resource"], [one.resourceTemplates, "template"]].filter(([count]) => count).map(([count, word]) => plural(count, word)).join(", ")],
    ["Group", typeof one.group === "object" ? Object.values(one.group ?? {}).join(", ") : one.group],
    ["Whose", one.scope && (one.scope === "app" ? "everybody's" : one.user)], ["Description", one.description],
    ["Registered", one.created && html`<${When} at=${one.created} />`],
    ["Tags", one.tags?.length && one.tags.map((tag, index) => html`<${Chip} key=${index}>${tag}<//>`)],
  ].filter(([, value]) => value);
  return html`<${Card} label="Facts"><dl class="facts">${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl><//>`;
}

function Tools({ name, state, waits }) {
  const pages = usePages("tools", { server: name, limit: 50 }, "tools", { on: ["tool", "server"] });
  return html`<${Loaded} from=${pages}>${({ tools, total }) => (tools.length ? html`<${ToolRows} tools=${tools} /><${Pager} pages=${pages} total=${total} shown=${tools.length} what="tool" />`
    : html`<${Empty} title=${state === "starting" ? "It is starting" : "No tools"}>${state === "starting" ? "Its tools show here as soon as it answers." : waits ? "What it offers waits for approval, above." : "It offers none, or none is there for you."}<//>`)}<//>`;
}

function Check({ name, reload }) {
  const [found, set] = useState(null);
  const run = async () => {
    try { set(await api("POST", `servers/${part(name)}/doctor`)); } catch (error) { set({ error }); }
  };
  const fix = (one) => async () => {
    await mend(name, one.fix);
    reload();
    await run();
  };
  return html`<${Card} title="Check" lead="Looks at everything between the gateway and this server, and says what to do." actions=${html`<${Button} kind="primary" onClick=${run}>Check now<//>`}>
    <div aria-live="polite">${found?.error && html`<${Problem} error=${found.error.status === 404 ? { message: "This gateway cannot check servers from here yet.", hint: `Type: trunkline doctor ${name}` } : found.error} />`}
    ${found?.findings && (found.findings.length ? html`<ul class="findings">${found.findings.map((one, index) => html`<li key=${index}><${State} is=${one.level} /><div class="grow"><b><${Words} text=${one.message} /></b>${one.cause && html`<p class="quiet"><${Words} text=${one.cause} /></p>`}${one.do && html`<p><${Words} text=${one.do} /></p>`}${one.command && html`<${Code} text=${one.command} label="Command" />`}</div>${one.fix && html`<${Button} kind="small primary" onClick=${fix(one)}>${one.fix.label}<//>`}</li>`)}</ul>` : html`<p class="calm">All is well.</p>`)}</div>
  <//>`;
}

async function mend(name, fix) {
  const verbs = { restart: "restart", enable: "enable" };
  if (verbs[fix.action]) await api("POST", `servers/${part(name)}/${verbs[fix.action]}`);
  else if (fix.action === "sign-in") await signIn(name);
  else if (fix.action === "review") { scrollTo({ top: 0, behavior: "smooth" }); return; }
  say("Done.");
}

function Log({ name }) {
  const log = useData(`servers/${part(name)}/log?lines=500`, { on: ["server"] });
  return html`<${Card} title="Log" lead="What it wrote to its standard error, the newest last." actions=${html`<${Button} kind="small" onClick=${log.reload}>Refresh<//>`}>
    <${Loaded} from=${log} lacking="There is no log of this server here.">${({ lines }) => (lines.length ? html`<pre class="log" tabindex="0" aria-label="Log">${lines.map((line) => (typeof line === "string" ? line : line.text ?? "") + "\n")}</pre>` : html`<${Empty} title="It has said nothing" />`)}<//>
  <//>`;
}
