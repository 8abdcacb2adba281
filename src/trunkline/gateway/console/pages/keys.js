// Keys of yours: made, shown once, and revoked.
import { html, useState } from "../vendor/preact.js";
import { api, me, part, useData, usePages } from "../api.js";
import { Button, Chip, Copy, Dialog, Empty, Field, Loaded, Page, Pager, Problem, Select, Table, When, say, sure } from "../ui.js";

export default function Keys() {
  return html`<${Page} title="Keys" lead="What your clients send to be let in as you. A key may do less than you may."><${KeyTable} user=${me.value.user} /><//>`;
}

/** The keys of one user, or of all. */
export function KeyTable({ user }) {
  const pages = usePages("keys", { user, limit: 50 }, "keys");
  const [making, make] = useState(false);
  const revoke = (one) => async () => {
    if (!(await sure(`Revoke ${one.name || one.id}?`, "Whoever uses it is let in no more, from now on.", "Revoke"))) return;
    await api("DELETE", `keys/${part(one.id)}`);
    say("The key is revoked.");
    pages.reload();
  };
  const columns = [
    ["Key", (one) => html`<b class="strong cut">${one.name || "Without a name"}</b><span class="quiet cut mono">${one.id}</span>`, "wide"],
    ...(user ? [] : [["User", (one) => one.user]]),
    ["May", (one) => html`<span class="chips">${one.read_only && html`<${Chip} kind="ok">only read<//>`}${one.profile && html`<${Chip}>profile ${one.profile}<//>`}${[...(one.servers ?? []), ...(one.tools ?? [])].map((name, index) => html`<${Chip} key=${index}>${name}<//>`)}${!one.read_only && !one.profile && !one.servers?.length && !one.tools?.length && html`<span class="quiet">all its user may</span>`}</span>`],
    ["Made", (one) => html`<${When} at=${one.created} />`, "num"],
    ["Ends", (one) => (one.expires ? html`<${When} at=${one.expires} ahead=${one.expires > Date.now() / 1000} />` : "never"), "num"],
    ["", (one) => html`<${Button} kind="small danger" onClick=${revoke(one)} label=${`Revoke ${one.name || one.id}`}>Revoke<//>`, "tight"],
  ];
  return html`<div class="filters"><${Button} kind="primary" icon="plus" onClick=${() => make(true)}>Make a key<//></div>
    <${Loaded} from=${pages}>${({ keys }) => (keys.length ? html`<${Table} label="Keys" rows=${keys} id=${(one) => one.id} columns=${columns} /><${Pager} pages=${pages} what="key" />` : html`<${Empty} title="No keys yet">${me.value.needs_key ? "Make one for each client, so that each can be revoked alone." : "On this machine nobody needs one. As soon as there are people, each client has its own."}<//>`)}<//>
    ${making && html`<${Make} user=${user} onClose=${() => { make(false); pages.reload(); }} />`}`;
}

const ENDS = [["30d", "In 30 days"], ["7d", "In a week"], ["90d", "In 90 days"], ["365d", "In a year"], ["", "Never"]];

function Make({ user, onClose }) {
  const [wanted, set] = useState({ user, name: "", expires: "30d", profile: "", servers: [], read_only: false });
  const [made, setMade] = useState(null);
  const [error, setError] = useState(null);
  const servers = useData("servers").data?.servers ?? [];
  const profiles = me.value.profiles ?? [];
  const put = (name, value) => set({ ...wanted, [name]: value });
  const make = async (event) => {
    event.preventDefault();
    try { setMade(await api("POST", "keys", wanted)); } catch (failed) { setError(failed); }
  };
  const toggle = (name) => put("servers", wanted.servers.includes(name) ? wanted.servers.filter((one) => one !== name) : [...wanted.servers, name]);
  if (made) return html`<${Dialog} title="Your key" onClose=${onClose}><p>It is shown this once. Whoever has it is let in as ${made.user}.</p><div class="address"><code>${made.key}</code><${Copy} text=${made.key} label="Copy the key" /></div><div class="actions end"><${Button} kind="primary" onClick=${onClose}>I have it<//></div><//>`;
  return html`<${Dialog} title="Make a key" onClose=${onClose}><form class="fields" onSubmit=${make}>
    ${!user && html`<${Field} label="User"><input required value=${wanted.user} onInput=${(event) => put("user", event.target.value)} autocomplete="off" /><//>`}
    <${Field} label="Name" hint="Such as the client it is for."><input value=${wanted.name} onInput=${(event) => put("name", event.target.value)} autocomplete="off" /><//>
    <${Field} label="Ends"><${Select} label="Ends" value=${wanted.expires} onPick=${(value) => put("expires", value)} options=${ENDS} /><//>
    ${profiles.length > 0 && html`<${Field} label="Profile"><${Select} label="Profile" value=${wanted.profile} onPick=${(value) => put("profile", value)} options=${[["", "None"], ...profiles.map((one) => [one.name ?? one, one.name ?? one])]} /><//>`}
    <div class="field check"><input id="reads" type="checkbox" checked=${wanted.read_only} onChange=${(event) => put("read_only", event.target.checked)} /><label class="field-label" for="reads">It may only read</label></div>
    ${servers.length > 0 && html`<details><summary>Only some servers</summary><div class="items">${servers.slice(0, 100).map((one, index) => html`<div class="field check" key=${one.name}><input id=${`s${index}`} type="checkbox" checked=${wanted.servers.includes(one.name)} onChange=${() => toggle(one.name)} /><label for=${`s${index}`}>${one.name}</label></div>`)}</div></details>`}
    <${Problem} error=${error} /><div class="actions end"><button class="button primary" type="submit">Make it</button></div>
  </form><//>`;
}
