// People and what they may: roles, keys, limits; threads and profiles.
import { html, useState } from "../vendor/preact.js";
import { api, part, query, useData, usePages } from "../api.js";
import { Button, Chip, Dialog, Empty, Field, Loaded, Page, Pager, Problem, Select, Table, Tabs, When, duration, number, say, sure } from "../ui.js";
import { KeyTable } from "./keys.js";

const TABS = [["people", "People"], ["keys", "Keys"], ["threads", "Threads"], ["profiles", "Profiles"], ["limits", "Limits"]];
const ROLES = [["member", "Member"], ["reader", "Reader"], ["admin", "Admin"], ["blocked", "Blocked"]];
/** What can be limited for one person. */
const LIMITS = ["calls_per_minute", "calls_per_hour", "key_calls_per_minute", "tokens_per_day", "cost_per_day", "connections"];
const inWords = (name) => name.replaceAll("_", " ");
const KINDS = { admin: "accent", blocked: "bad" };

export default function People({ rest: [name], search }) {
  const [tab, pick] = useState(search.tab ?? "people");
  if (name) return html`<${Page} title=${`Keys of ${name}`} back=${["#/people", "People"]}><${KeyTable} user=${name} /><//>`;
  const Part = { people: Everybody, keys: KeyTable, threads: Threads, profiles: Profiles, limits: Limits }[tab] ?? Everybody;
  return html`<${Page} title="People" lead="Who is let in, and what each may do."><${Tabs} label="People and what they may" tabs=${TABS} at=${tab} onPick=${pick} /><${Part} user="" /><//>`;
}

function Everybody() {
  const pages = usePages("users", { limit: 50 }, "users");
  const [open, show] = useState(null);
  const remove = (one) => async () => {
    if (!(await sure(`Forget ${one.name}?`, "With their keys, threads, sign-ins and servers. This cannot be undone.", "Forget them"))) return;
    await api("DELETE", `users/${part(one.name)}`, undefined, { "If-Match": `"${one.version}"` });
    say(`${one.name} is forgotten.`);
    pages.reload();
  };
  const columns = [
    ["Person", (one) => html`<b class="strong cut">${one.name}</b>`, "wide"],
    ["Role", (one) => html`<${Chip} kind=${KINDS[one.role]}>${one.role}<//>`],
    ["Limits", (one) => html`<span class="chips">${Object.entries(one.limits ?? {}).map(([what, most]) => html`<${Chip} key=${what}>${inWords(what)} ${number(most)}<//>`)}${!Object.keys(one.limits ?? {}).length && html`<span class="quiet">as for everybody</span>`}</span>`],
    ["Since", (one) => html`<${When} at=${one.created} />`, "num"],
    ["", (one) => html`<span class="actions"><a class="button small" href=${`#/people/${encodeURIComponent(one.name)}`}>Keys</a><${Button} kind="small" onClick=${() => show(one)} label=${`Change ${one.name}`}>Change<//><${Button} kind="small danger" onClick=${remove(one)} label=${`Forget ${one.name}`}>Forget<//></span>`, "tight"],
  ];
  return html`<div class="filters"><${Button} kind="primary" icon="plus" onClick=${() => show({})}>Add somebody<//></div>
    <${Loaded} from=${pages}>${({ users }) => (users.length ? html`<${Table} label="People" rows=${users} id=${(one) => one.name} columns=${columns} /><${Pager} pages=${pages} what="person" />`
      : html`<${Empty} title="Nobody yet">Until somebody is added, whoever is on this machine is let in. Afterwards everybody needs a key.<//>`)}<//>
    ${open && html`<${Person} one=${open} onClose=${() => { show(null); pages.reload(); }} />`}`;
}

function Person({ one, onClose }) {
  const fresh = !one.name;
  const [name, setName] = useState(one.name ?? "");
  const [role, setRole] = useState(one.role ?? "member");
  const [limits, setLimits] = useState(Object.entries(one.limits ?? {}));
  const [error, setError] = useState(null);
  const save = async (event) => {
    event.preventDefault();
    const body = { role, limits: Object.fromEntries(limits.map(([what, most]) => [what, Number(most)])) };
    try {
      if (fresh) await api("POST", "users", { name, ...body });
      else await api("PATCH", `users/${part(one.name)}`, body, { "If-Match": `"${one.version}"` });
      say(fresh ? `${name} is added. Make a key next.` : `${name} is changed.`);
      onClose();
    } catch (failed) { setError(failed); }
  };
  const put = (index, pair) => setLimits(limits.map((was, at) => (at === index ? pair : was)));
  return html`<${Dialog} title=${fresh ? "Add somebody" : `Change ${one.name}`} onClose=${onClose}><form class="fields" onSubmit=${save}>
    ${fresh && html`<${Field} label="Name"><input required value=${name} onInput=${(event) => setName(event.target.value)} autocomplete="off" spellcheck=${false} /><//>`}
    <${Field} label="Role" hint="Members have what is their own, readers only look, admins see and change everything. Whoever is blocked is let in no more."><${Select} label="Role" value=${role} onPick=${setRole} options=${ROLES} /><//>
    <div class="field"><span class="field-label">Limits</span><div class="items">${limits.map(([what, most], index) => html`<div class="item" key=${index}>
      <${Select} label=${`Limit ${index + 1}: what`} value=${what} onPick=${(next) => put(index, [next, most])} options=${LIMITS.map((one) => [one, inWords(one)])} /><input type="number" min="0" step="any" required aria-label=${`Limit ${index + 1}: at most`} value=${most} onInput=${(event) => put(index, [what, event.target.value])} />
      <${Button} kind="small plain" icon="close" label=${`Remove limit ${index + 1}`} onClick=${() => setLimits(limits.filter((_, at) => at !== index))} /></div>`)}
      <${Button} kind="small" icon="plus" onClick=${() => setLimits([...limits, [LIMITS.find((one) => !limits.some(([what]) => what === one)) ?? LIMITS[0], ""]])}>Add a limit<//></div></div>
    <${Problem} error=${error} /><div class="actions end"><button class="button primary" type="submit">${fresh ? "Add" : "Save"}</button></div>
  </form><//>`;
}

function Threads() {
  const [user, setUser] = useState("");
  const pages = usePages("threads", { user, limit: 50 }, "threads");
  const users = useData("users?limit=200").data?.users ?? [];
  const forget = (one) => async () => {
    if (!(await sure(`Let ${one.id} be as its user again?`, "What was configured for this thread is gone.", "Forget it"))) return;
    await api("DELETE", `threads/${part(one.id)}${one.user ? `?user=${part(one.user)}` : ""}`);
    pages.reload();
  };
  const columns = [
    ["Thread", (one) => html`<b class="strong cut">${one.id}</b><span class="quiet">${one.user}</span>`, "wide"],
    ["Has", (one) => html`<span class="chips">${one.servers ? one.servers.map((name, index) => html`<${Chip} key=${index}>${name}<//>`) : html`<span class="quiet">all servers</span>`}${one.disabled?.map((name, index) => html`<${Chip} kind="warn" key=${`d${index}`}>without ${name}<//>`)}</span>`],
    ["Otherwise", (one) => html`<span class="chips">${Object.entries(one.overrides ?? {}).filter(([, value]) => value && (typeof value !== "object" || Object.keys(value).length)).map(([what, value]) => html`<${Chip} key=${what}>${what} ${value === true ? "" : typeof value === "object" ? JSON.stringify(value) : value}<//>`)}</span>`],
    ["Changed", (one) => html`<${When} at=${one.updated} />`, "num"],
    ["", (one) => html`<${Button} kind="small danger" onClick=${forget(one)} label=${`Forget thread ${one.id}`}>Forget<//>`, "tight"],
  ];
  return html`<div class="filters"><${Select} label="User" value=${user} onPick=${setUser} options=${[["", "Your own"], ...users.map((one) => [one.name, one.name])]} /></div>
    <${Loaded} from=${pages}>${({ threads }) => (threads.length ? html`<${Table} label="Threads" rows=${threads} id=${(one) => one.id} columns=${columns} /><${Pager} pages=${pages} what="thread" />` : html`<${Empty} title="No thread is configured">A thread can have fewer servers and tools than its user, and other settings.<//>`)}<//>`;
}

function Profiles() {
  const profiles = useData("profiles", { on: ["server"] });
  const list = (names, none) => html`<span class="chips">${(names ?? []).map((name, index) => html`<${Chip} key=${index}>${name}<//>`)}${!names?.length && html`<span class="quiet">${none}</span>`}</span>`;
  const columns = [
    ["Profile", (one) => html`<b class="strong cut">${one.name || "Without a profile"}</b><code class="quiet cut">${one.address}</code>`, "wide"],
    ["Lists", (one) => `${one.expose}${one.searching ? ", searched" : ""}`], ["Tools", (one) => `${number(one.listed)} of ${number(one.tool_count)}`, "num"],
    ["Servers", (one) => list(one.servers, "all")], ["Pinned", (one) => list(one.pinned, "–")], ["Hidden", (one) => list(one.hidden, "–")],
  ];
  return html`<${Loaded} from=${profiles}>${({ profiles: all }) => html`<${Table} label="Profiles" rows=${all} id=${(one) => one.name} columns=${columns} /><p class="quiet note">A profile is a view of its own at /mcp/NAME. It is written in trunkline.toml, under [profiles].</p>`}<//>`;
}

function Limits() {
  const [user, setUser] = useState("");
  const users = useData("users?limit=200").data?.users ?? [];
  const limits = useData(`limits${query({ user })}`, { on: ["limit", "call"], often: 1500 });
  const columns = [
    ["Limit", (one) => html`<b class="strong">${inWords(one.what)}</b><span class="quiet cut">of ${one.of} ${one.name || "nobody in particular"}</span>`, "wide"],
    ["Used", (one) => html`<meter min="0" max=${one.most || 1} value=${one.used} aria-label=${`${one.what} used`}></meter>${number(one.used)}`, "num"],
    ["At most", (one) => number(one.most), "num"], ["For", (one) => duration(one.per), "num"],
    ["Begins anew", (one) => (one.resets ? html`<${When} at=${one.resets} ahead />` : "–"), "num"],
  ];
  return html`<div class="filters"><${Select} label="User" value=${user} onPick=${setUser} options=${[["", "Everybody"], ...users.map((one) => [one.name, one.name])]} /></div>
    <${Loaded} from=${limits}>${({ limits: all }) => (all.length ? html`<${Table} label="Limits" rows=${all} id=${(one) => `${one.of} ${one.user} ${one.name} ${one.what}`} columns=${columns} />` : html`<${Empty} title="There are no limits">They are written in trunkline.toml, under [limits], or said of a person.<//>`)}<//>`;
}
