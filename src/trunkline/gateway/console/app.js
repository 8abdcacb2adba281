// The shell: who is signed in, where one is, and how to get elsewhere.
import { html, render, signal, effect, useEffect, useRef } from "./vendor/preact.js";
import { api, isAdmin, isIn, live, loadMe, me, useData } from "./api.js";
import { Asked, Button, FIRST, Icon, Logo, Problem, Toasts } from "./ui.js";

const PAGES = [
  ["overview", "Overview"], ["servers", "Servers"], ["tools", "Tools"], ["calls", "Calls"], ["questions", "Questions"],
  ["programs", "Programs"], ["connections", "Connections"], ["keys", "Keys"], ["people", "People", true], ["usage", "Usage"], ["audit", "Audit", true],
];
const ON_PHONE = 4;
const MODULES = new Set([...PAGES.map(([name]) => name), "server", "add", "tool", "call", "sign-in"]);
/** Where a page with something named in it is: `#/tools/add` is the page `tool`. */
const DETAIL = { servers: "server", tools: "tool", calls: "call" };

const place = signal(read());
const shown = signal(null);
const theme = signal(kept());

function read() {
  const [path, search = ""] = location.hash.slice(1).split("?");
  const [name = "", ...rest] = path.split("/").filter(Boolean).map(safely);
  return { name: name || "overview", rest, search: Object.fromEntries(new URLSearchParams(search)) };
}

function safely(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function kept() {
  try { return localStorage.getItem("theme") ?? "auto"; } catch { return "auto"; }
}

addEventListener("hashchange", () => { place.value = read(); });

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  try { localStorage.setItem("theme", theme.value); } catch { /* it is asked for again next time */ }
});

effect(() => {
  if (!me.value) return;
  load(isIn() ? moduleOf(place.value) : "sign-in", place.value);
});

function moduleOf({ name, rest }) {
  const wanted = rest.length && DETAIL[name] ? DETAIL[name] : name;
  return MODULES.has(wanted) ? wanted : "overview";
}

async function load(name, where) {
  const before = shown.peek(); // what is shown follows from where one is: to follow it as well would never end
  const moved = before && before.where !== where;
  try {
    const { default: View } = await import(`./pages/${name}.js`);
    if (place.value === where) shown.value = { name, where, View, moved };
  } catch (error) {
    // What this page was made of may be gone with an upgrade: begin anew, once.
    if (!sessionStorage.getItem("again")) { sessionStorage.setItem("again", "1"); location.reload(); return; }
    shown.value = { name, where, View: () => html`<${Problem} error=${{ message: "This page could not be loaded.", hint: "Reload it." }} />` };
    throw error;
  }
  sessionStorage.removeItem("again");
}

function Waiting({ count }) {
  return count ? html`<span class="count" aria-label=${`${count} waiting`}>${count}</span>` : null;
}

function Navigation() {
  const at = Object.keys(DETAIL).find((name) => name === place.value.name) ?? (place.value.name === "add" ? "servers" : place.value.name);
  const more = useRef(null);
  const waiting = useData("questions", { on: ["question"] }).data?.questions?.length ?? 0;
  const seen = PAGES.filter(([, , admin]) => !admin || isAdmin());
  const link = ([name, title]) => html`<a key=${name} href=${`#/${name}`} aria-current=${name === at ? "page" : undefined}><${Icon} name=${name} /><span>${title}</span>${name === "questions" && html`<${Waiting} count=${waiting} />`}</a>`;
  useEffect(() => { more.current?.close(); }, [place.value]);
  return html`
    <aside class="side">
      <a class="brand" href="#/overview"><${Logo} /><span>Trunkline</span></a>
      <nav aria-label="Main">${seen.map(link)}</nav>
      <${Foot} />
    </aside>
    <nav class="bar" aria-label="Main">
      ${seen.slice(0, ON_PHONE).map(link)}
      <button type="button" aria-haspopup="dialog" aria-current=${seen.slice(ON_PHONE).some(([name]) => name === at) ? "page" : undefined} onClick=${() => more.current.showModal()}><${Icon} name="more" /><span>More</span></button>
    </nav>
    <dialog class="sheet" ref=${more} aria-label="More pages" onClick=${(event) => event.target === more.current && more.current.close()}>
      <div><nav aria-label="More">${seen.slice(ON_PHONE).map(link)}</nav><${Foot} /></div>
    </dialog>`;
}

const THEMES = { auto: ["light", "auto", "as the system"], light: ["dark", "sun", "light"], dark: ["auto", "moon", "dark"] };

function Foot() {
  const [next, icon, word] = THEMES[theme.value] ?? THEMES.auto;
  const who = me.value;
  const leave = async () => { await api("DELETE", "session"); location.hash = ""; location.reload(); };
  return html`<div class="foot">
    <div class="who">${who.user && html`<b title=${who.user}>${who.user}</b>`}<span class="quiet">${who.user || who.needs_key ? who.role : "this machine"}</span></div>
    <${Button} kind="small plain" icon=${icon} label=${`Colours: ${word}`} title=${`Colours: ${word}`} onClick=${() => { theme.value = next; }} />
    ${who.needs_key && html`<${Button} kind="small plain" icon="out" label="Sign out" title="Sign out" onClick=${leave} />`}
  </div>`;
}

function Shell() {
  const main = useRef(null);
  const now = shown.value;
  useEffect(() => {
    if (!now?.moved) return;
    scrollTo(0, 0);
    main.current?.querySelector("h1")?.focus({ preventScroll: true });
  }, [now]);
  if (me.value?.failed) return html`<main class="alone"><${Logo} /><${Problem} error=${me.value.failed}><p><${Button} onClick=${loadMe}>Try again<//></p><//></main>`;
  // Who came in or went is known before the page for it is there.
  if (!me.value || !now || isIn() === (now.name === "sign-in")) return html`<p class="loading alone" role="status"><span class="hidden">Loading</span><i></i><i></i><i></i></p>`;
  const { View, where, name } = now;
  if (!isIn()) return html`<main class="alone" id="main" ref=${main}><${View} /></main><${Toasts} />`;
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>Skip to the page</a>
    <${Navigation} />
    <main id="main" tabindex="-1" ref=${main}><${View} key=${name + "/" + where.rest.join("/")} rest=${where.rest} search=${where.search} /></main>
    <p class="hidden" role="status">${live.value ? "Live" : ""}</p>
    <${Toasts} /><${Asked} />`;
}

// What has the focus may go with what was done: who uses the keyboard goes on in the dialog that is open, where they were before one that closed, or at the top of the page.
let latest = null, opener = null;
addEventListener("focusin", ({ target }) => { latest = target; if (!target.closest("dialog")) opener = target; });
new MutationObserver(() => {
  if (!latest || latest.isConnected || document.activeElement !== document.body) return;
  const top = latest.closest("dialog") && opener?.isConnected ? opener : document.querySelector("main h1");
  (document.querySelector("dialog[open]")?.querySelector(FIRST) ?? top)?.focus({ preventScroll: true });
}).observe(document.getElementById("app"), { childList: true, subtree: true });

render(html`<${Shell} />`, document.getElementById("app"));
loadMe();
import(`./pages/${moduleOf(place.value)}.js`).catch(() => { /* it is asked for again once it is known who looks */ });
