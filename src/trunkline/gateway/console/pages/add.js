// A new server: by its address, from the registry, from other clients' files, or as a command where that is allowed.
import { html, useState } from "../vendor/preact.js";
import { api, isAdmin, me, part, query, useData, usePages } from "../api.js";
import { Button, Card, Chip, Code, Dialog, Empty, Field, Link, Loaded, Page, Pager, Problem, Search, Select, State, Tabs, plural, say, useSettled } from "../ui.js";

export default function Add({ search }) {
  const [from, pick] = useState(search.from ?? "address");
  const can = me.value.can ?? {};
  const tabs = [["address", "By address"], ["registry", "From the registry"], ["clients", "From your clients"], ["command", "As a command"]];
  const Part = { address: Address, registry: Registry, clients: Clients, command: Command }[from] ?? Address;
  if (can.add_servers === false) return html`<${Page} title="Add a server" back=${["#/servers", "Servers"]}><${Empty} title="You may not add servers here">Ask whoever runs this gateway.<//><//>`;
  return html`<${Page} title="Add a server" back=${["#/servers", "Servers"]}>
    <${Tabs} label="Where it comes from" tabs=${tabs} at=${from} onPick=${pick} />
    <${Part} />
  <//>`;
}

const open = (name) => { location.hash = `#/servers/${encodeURIComponent(name)}`; };

/** For whom a server is added: members add for themselves, admins may for all. */
function Whose({ value, onPick }) {
  if (!isAdmin() || !me.value.user) return null;
  return html`<${Field} label="For whom"><${Select} label="For whom" value=${value} onPick=${onPick} options=${[["app", "Everybody"], ["user", "Myself"]]} /><//>`;
}
const whose = () => (isAdmin() ? "app" : "user");

const nameFrom = (url) => {
  try {
    const words = new URL(url).hostname.split(".").filter((one) => !["www", "mcp", "api", "com", "org", "net", "io", "dev", "app", "ai", "co"].includes(one));
    return (words.join("-") || new URL(url).hostname).replace(/[^a-z0-9-]/gi, "-").slice(0, 40);
  } catch { return ""; }
};

function Address() {
  const [url, setUrl] = useState("");
  const [name, setName] = useState("");
  const [token, setToken] = useState("");
  const [scope, setScope] = useState(whose());
  const [tried, setTried] = useState(null);
  const [error, setError] = useState(null);
  const proposed = name || nameFrom(url);
  const wanted = () => ({ url: url.trim(), ...(token && { headers: { Authorization: `Bearer ${token}` } }) });
  const check = async () => {
    setError(null);
    try { setTried(await api("POST", "servers/check", wanted())); } catch (failed) { setTried(null); setError(failed.status === 404 ? { message: "This gateway cannot try addresses yet. Add it and see." } : failed); }
  };
  const add = async (event) => {
    event.preventDefault();
    setError(null);
    try {
      const made = await api("POST", "servers", { name: proposed, scope, ...wanted() });
      say(`${made.name} is added.`);
      open(made.name);
    } catch (failed) { setError(failed); }
  };
  return html`<${Card} label="By address"><form class="fields" onSubmit=${add}>
    <${Field} label="Address" hint="As its maker gives it, such as https://example.com/mcp"><input type="url" required value=${url} onInput=${(event) => { setUrl(event.target.value); setTried(null); }} autocomplete="off" spellcheck=${false} /><//>
    <${Field} label="Name" hint="Its tools begin with it, such as weather."><input value=${name} placeholder=${nameFrom(url)} onInput=${(event) => setName(event.target.value)} autocomplete="off" spellcheck=${false} /><//>
    <details><summary>It wants a token</summary><${Field} label="Bearer token" hint="Kept encrypted. Leave it empty where one signs in with a browser."><input type="password" value=${token} onInput=${(event) => setToken(event.target.value)} autocomplete="off" /><//></details>
    <${Whose} value=${scope} onPick=${setScope} />
    <${Problem} error=${error} />
    ${tried && html`<p class="tried" role="status"><${State} is=${tried.state} /> ${tried.needs_sign_in ? "It wants you to sign in: that comes next." : tried.reason || plural(tried.tools ?? 0, "tool")}</p>`}
    <div class="actions start"><button class="button primary" type="submit" disabled=${!url.trim()}>Add</button><${Button} disabled=${!url.trim()} onClick=${check}>Try it first<//></div>
  </form><//>`;
}

function Registry() {
  const [text, setText] = useState("");
  const [chosen, choose] = useState(null);
  const pages = usePages("registry", { q: useSettled(text.trim(), 300), limit: 20 }, "servers");
  return html`<div class="filters"><${Search} value=${text} onInput=${setText} label="Search the registry" /></div>
    <${Loaded} from=${pages} lacking="This gateway cannot look into the registry from here yet. Type: trunkline registry search">${({ servers, unreached = [] }) => html`${unreached.length > 0 && html`<p class="quiet note" role="status">Not reached: ${unreached.join(", ")}. What is shown is from elsewhere.</p>`}${servers.length ? html`
      <ul class="rows">${servers.map((one) => html`<li key=${one.name}><div class="grow"><b>${one.title || one.name}</b> <span class="quiet">${one.title && one.title !== one.name ? `${one.name} ` : ""}${one.version}</span><p class="quiet cut2">${one.description}</p></div>
        <span class="chips">${one.verified && html`<${Chip} kind="ok">tried<//>`}<${Chip}>${one.remote ? "remote" : "runs here"}<//></span>
        ${one.installed ? html`<${Chip} kind="ok">added<//>` : html`<${Button} kind="small primary" onClick=${() => choose(one)} label=${`Add ${one.title || one.name}`}>Add<//>`}</li>`)}</ul>
      <${Pager} pages=${pages} what="server" />` : html`<${Empty} title="Nothing fits" />`}`}<//>
    ${chosen && html`<${Install} entry=${chosen} onClose=${() => choose(null)} />`}`;
}

function Install({ entry, onClose }) {
  const about = useData(`registry/${part(entry.name)}`);
  const [values, set] = useState({});
  const [scope, setScope] = useState(whose());
  const [error, setError] = useState(null);
  const install = async (event) => {
    event.preventDefault();
    try {
      const made = await api("POST", `registry/${part(entry.name)}/install`, { scope, values });
      say(`${made.name} is added.`);
      onClose();
      open(made.name);
    } catch (failed) { setError(failed); }
  };
  return html`<${Dialog} title=${`Add ${entry.title || entry.name}`} onClose=${onClose}><${Loaded} from=${about}>${(one) => html`<form class="fields" onSubmit=${install}>
    <p>${one.description}</p>${one.repository && html`<p><${Link} to=${one.repository} /></p>`}
    ${(one.url || one.runs) && html`<p class="quiet">${one.remote ? "It is at" : "It runs"} <code>${one.url || one.runs}</code></p>`}
    ${(one.notes ?? []).map((note, index) => html`<p class="quiet" key=${index}>${note}</p>`)}
    ${one.allowed === false ? html`<${Problem} error=${{ message: one.reason || "This one starts a program on the gateway's machine, which is not allowed from here." }} />${one.command && html`<p>Whoever runs the gateway can type:</p><${Code} text=${one.command} label="Command" />`}` : html`
      ${(one.inputs ?? []).map((input) => html`<${Field} key=${input.name} label=${`${input.name}${input.required ? " (required)" : ""}`} hint=${input.description}>${wanted(input, values, set)}<//>`)}
      <${Whose} value=${scope} onPick=${setScope} /><${Problem} error=${error} />
      <div class="actions end"><button class="button primary" type="submit">Add</button></div>`}
  </form>`}<//><//>`;
}

function wanted(input, values, set) {
  const put = (text) => set({ ...values, [input.name]: input.repeated ? text.split("\n").filter(Boolean) : text });
  if (input.choices?.length) return html`<select required=${input.required} onChange=${(event) => put(event.target.value)}><option value="">–</option>${input.choices.map((choice) => html`<option key=${choice}>${choice}</option>`)}</select>`;
  if (input.repeated) return html`<textarea rows="2" placeholder="One on each line" required=${input.required} onInput=${(event) => put(event.target.value)}></textarea>`;
  return html`<input type=${input.secret ? "password" : "text"} required=${input.required && !input.default} placeholder=${input.default} value=${values[input.name] ?? ""} onInput=${(event) => put(event.target.value)} autocomplete="off" />`;
}

function Clients() {
  const clients = useData("clients");
  const [left, setLeft] = useState([]);
  const take = (client, names) => async () => {
    const done = await api("POST", `clients/${part(client)}/import`, { servers: names });
    setLeft(done.refused);
    if (done.added.length) say(`${plural(done.added.length, "server")} added.`);
    if (done.added.length === 1 && !done.refused.length) open(done.added[0]);
    clients.reload();
  };
  return html`${left.length > 0 && html`<${Card} title="Not added" kind="needs"><${Left} left=${left} /><//>`}
    <${Loaded} from=${clients} lacking="This gateway does not read other clients' files from here. Type: trunkline import">${({ clients: all }) => (all.length ? all.map((one) => {
    const fresh = one.servers.filter((server) => !server.known && server.allowed).map((server) => server.name);
    return html`<${Card} key=${one.client} title=${one.title || one.client} actions=${fresh.length > 1 && html`<${Button} kind="small primary" onClick=${take(one.client, fresh)}>Add all ${fresh.length}<//>`}>
      <ul class="rows">${one.servers.map((server) => html`<li key=${server.name}><div class="grow"><b>${server.name}</b><p class="quiet cut">${server.address}</p>${(server.notes ?? []).map((note, index) => html`<p class="quiet" key=${index}>${note}</p>`)}</div>
        ${server.known ? html`<${Chip} kind="ok">added<//>` : server.allowed ? html`<${Button} kind="small primary" onClick=${take(one.client, [server.name])} label=${`Add ${server.name}`}>Add<//>` : html`<span class="typed"><span class="quiet">It is started here. Type:</span> <code>${server.command}</code></span>`}</li>`)}</ul>
      <${Left} left=${one.refused} /><//>`;
  }) : html`<${Empty} title="No client has servers here">Nothing was found in the files of Claude, Cursor, VS Code and others.<//>`)}<//>`;
}

/** What was not taken over, why, and what to type instead. */
const Left = ({ left }) => html`<ul class="rows">${left.map((one, index) => html`<li key=${index}><div class="grow"><b>${one.name}</b><p class="quiet">${one.reason}</p>${one.command && html`<${Code} text=${one.command} label="Command" />`}</div></li>`)}</ul>`;

function Command() {
  const allowed = me.value.can?.add_commands;
  const [line, setLine] = useState("");
  const [name, setName] = useState("");
  const [error, setError] = useState(null);
  const words = line.match(/"[^"]*"|'[^']*'|\S+/g)?.map((word) => word.replace(/^(["'])(.*)\1$/, "$2")) ?? [];
  const add = async (event) => {
    event.preventDefault();
    try {
      const made = await api("POST", "servers", { name, command: words[0], args: words.slice(1), scope: whose() });
      say(`${made.name} is added.`);
      open(made.name);
    } catch (failed) { setError(failed); }
  };
  const typed = `trunkline add ${name || "time"} ${line || "uvx mcp-server-time"}`;
  if (!allowed) return html`<${Card} title="A program that runs on the gateway's machine" lead="Whoever may start one can do anything there, so the console may not. Type it where the gateway runs; it takes effect at once."><${Code} text=${typed} label="Command" />
    <p class="quiet">An operator may allow it with <code>allow_commands = true</code> in <code>[gateway]</code>.</p><//>`;
  return html`<${Card} label="As a command"><form class="fields" onSubmit=${add}>
    <${Field} label="Name"><input required value=${name} onInput=${(event) => setName(event.target.value)} autocomplete="off" /><//>
    <${Field} label="Command" hint="It runs on the gateway's machine, as the gateway's user."><input required class="mono" value=${line} placeholder="uvx mcp-server-time" onInput=${(event) => setLine(event.target.value)} autocomplete="off" spellcheck=${false} /><//>
    <${Problem} error=${error} /><div class="actions start"><button class="button primary" type="submit">Add</button></div></form><//>`;
}
