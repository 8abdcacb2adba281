// Where you are signed in, and where you should be.
import { html } from "../vendor/preact.js";
import { api, part, useData } from "../api.js";
import { Button, Card, Chip, Empty, Loaded, Page, State, Table, When, Words, say, sure } from "../ui.js";
import { signIn } from "../signing.js";

export default function Connections() {
  const connections = useData("connections", { on: ["sign-in", "server"] });
  const servers = useData("servers", { on: ["server"] });
  const enter = (name) => async () => { await signIn(name); connections.reload(); servers.reload(); };
  const leave = (one) => async () => {
    if (!(await sure(`Sign out of ${one.server}?`, "Its tokens are revoked where that can be asked for.", "Sign out"))) return;
    await api("DELETE", `connections/${part(one.server)}`);
    say(`Signed out of ${one.server}.`);
    connections.reload();
  };
  const wanting = (servers.data?.servers ?? []).filter((one) => one.state === "needs-authorization");
  const columns = [
    ["Server", (one) => html`<a class="strong cut" href=${`#/servers/${encodeURIComponent(one.server)}`}>${one.server}</a><span class="quiet cut">${one.account ? `as ${one.account} at ` : ""}${one.issuer}</span>`, "wide"],
    ["State", (one) => html`<${State} is=${one.state} />${one.reason && html`<span class="quiet cut2">${one.reason}</span>`}`, "state-cell"],
    ["May", (one) => !one.scopes?.length && !one.shared ? "–" : html`<span class="chips">${(one.scopes ?? []).map((scope, index) => html`<${Chip} key=${index}>${scope}<//>`)}${one.shared && html`<${Chip} kind="accent">for everybody<//>`}</span>`],
    ["Since", (one) => html`<${When} at=${one.since} />`, "num"],
    ["Ends", (one) => (one.renewable ? "renewed by itself" : html`<${When} at=${one.expires} ahead />`), "num"],
    ["", (one) => html`<span class="actions">${one.state !== "signed-in" && html`<${Button} kind="small primary" onClick=${enter(one.server)}>Sign in<//>`}<${Button} kind="small" onClick=${leave(one)} label=${`Sign out of ${one.server}`}>Sign out<//></span>`, "tight"],
  ];
  return html`<${Page} title="Connections" lead="Where Trunkline is signed in on your behalf. Tokens never leave it.">
    ${wanting.length > 0 && html`<${Card} title="Waiting for you" kind="needs"><ul class="rows">${wanting.map((one) => html`<li key=${one.name}><span class="grow"><b>${one.name}</b><span class="quiet cut2"><${Words} text=${one.reason} /></span></span><${Button} kind="small primary" onClick=${enter(one.name)} label=${`Sign in to ${one.name}`}>Sign in<//></li>`)}</ul><//>`}
    <${Loaded} from=${connections}>${({ connections: all }) => (all.length ? html`<${Table} label="Connections" rows=${all} id=${(one) => `${one.server} ${one.shared ?? ""}`} columns=${columns} />` : html`<${Empty} title="You are signed in nowhere">Servers that want you to sign in show here.<//>`)}<//>
  <//>`;
}
