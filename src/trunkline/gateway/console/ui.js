// The parts that pages are made of. Text from outside is only ever text: nothing here makes HTML of it.
import { html, signal, useEffect, useRef, useState } from "./vendor/preact.js";

export { html };

// Words and numbers.

/** Made when first used: each takes milliseconds, and most pages need few of them. */
function later(make) {
  let made;
  return (value) => (made ??= make()).format(value);
}

const whole = later(() => new Intl.NumberFormat("en"));
const short = later(() => new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }));
export const number = (value) => (value == null ? "–" : Math.abs(value) >= 100_000 ? short(value) : Math.abs(value) < 1000 && Number.isInteger(value) ? String(value) : whole(value));
export const plural = (count, word, many = word + "s") => `${number(count)} ${count === 1 ? word : many}`;

export function duration(seconds) {
  if (seconds == null) return "–";
  if (seconds < 0.001) return seconds === 0 ? "0 ms" : "< 1 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 100) return `${seconds.toFixed(seconds < 10 && !Number.isInteger(seconds) ? 1 : 0)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`;
}

export function size(bytes) {
  if (bytes == null) return "–";
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${(bytes / 1000).toFixed(bytes < 10_000 ? 1 : 0)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Day and time by hand: what would say them in every language takes longer to load than the rest of a page. */
function dated(date) {
  const text = date.toString(); // Wed Nov 18 2026 15:02:09 …
  return `${text.slice(4, 15)}, ${text.slice(16, 21)}`;
}

export function When({ at, ahead = false }) {
  if (!at) return html`<span>–</span>`;
  const date = new Date(at * 1000), away = Math.abs(Date.now() / 1000 - at);
  const told = away < 5 ? "now" : ahead ? `in ${duration(Math.ceil(away))}` : away < 86_400 ? `${duration(Math.floor(away))} ago` : dated(date);
  return html`<time dateTime=${date.toISOString()} title=${dated(date)}>${told}</time>`;
}

/** The time of day, with the day where that was long ago. */
export function clock(at) {
  const date = new Date(at * 1000);
  return Date.now() / 1000 - at > 90_000 ? dated(date) : date.toTimeString().slice(0, 8);
}

/** An address that a link may have: of the web and nothing else. */
export function webAddress(text) {
  try {
    const url = new URL(text);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
  } catch { return null; }
}

export function Link({ to, children }) {
  const href = webAddress(to);
  return href ? html`<a href=${href} target="_blank" rel="noopener noreferrer">${children ?? href}</a>` : html`<span>${children ?? to}</span>`;
}

// Icons: drawn by us, never by a server.

const PATHS = {
  overview: "M3 13h7V3H3zM14 21h7V11h-7zM14 3v4h7V3zM3 21h7v-4H3z",
  servers: "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01",
  tools: "M14.5 6.5a4 4 0 0 1 5-3.9l-2.6 2.6.4 2 2 .4 2.6-2.6a4 4 0 0 1-5.3 4.7L8 18.3A2 2 0 1 1 5.300 15.600z",
  calls: "M3 12h4l3-8 4 16 3-8h4",
  questions: "M21 12a8 8 0 0 1-8 8H4l1.500-3.500A8 8 0 1 1 21 12zM10.500 9.500a2 2 0 1 1 2.500 2c-.6.2-1 .6-1 1.200M12 15.500h.01",
  programs: "M8 8l-4 4 4 4M16 8l4 4-4 4M13 5l-2 14",
  connections: "M9 15l6-6M8 11l-2.500 2.500a3.500 3.500 0 0 0 5 5L13 16M16 13l2.500-2.500a3.500 3.500 0 0 0-5-5L11 8",
  keys: "M15 9h.01M21 9a6 6 0 0 1-8 5.700L11 17H8v3H4v-4l6.300-6.300A6 6 0 1 1 21 9z",
  people: "M9 11a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM2.500 20a6.500 6.500 0 0 1 13 0M16 4.300a3.500 3.500 0 0 1 0 6.400M18 14.500a6.500 6.500 0 0 1 3.500 5.500",
  usage: "M5 20V10M12 20V4M19 20v-7",
  audit: "M12 3l7 3v5c0 5-3 8-7 10-4-2-7-5-7-10V6zM9 12l2 2 4-4",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  done: "M5 12.500l4.500 4.500L19 7.500",
  plus: "M12 5v14M5 12h14",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4",
  close: "M6 6l12 12M18 6L6 18",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 2v2M12 20v2M4.900 4.900l1.400 1.400M17.700 17.700l1.400 1.400M2 12h2M20 12h2M4.900 19.100l1.400-1.400M17.700 6.300l1.400-1.400",
  moon: "M20 14.500A8.500 8.500 0 0 1 9.500 4a8.500 8.500 0 1 0 10.500 10.500z",
  auto: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  out: "M10 4H5v16h5M14 8l4 4-4 4M18 12H9",
  back: "M14 6l-6 6 6 6",
};

export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`;

export const Logo = () => html`<svg class="logo" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8" /><path d="M7 9h4c5 0 5 7 9 7M7 23h4c5 0 5-7 9-7M7 16h18" /></svg>`;

// Layout.

export function Page({ title, lead, back, actions, children }) {
  useEffect(() => { document.title = typeof title === "string" && title ? `${title} · Trunkline` : "Trunkline"; }, [title]);
  return html`<header class="head">
      <div class="head-text">
        ${back && html`<a class="back" href=${back[0]}><${Icon} name="back" />${back[1]}</a>`}
        <h1 tabindex="-1">${title}</h1>
        ${lead && html`<div class="lead">${lead}</div>`}
      </div>
      ${actions && html`<div class="actions">${actions}</div>`}
    </header>${children}`;
}

export function Card({ title, lead, actions, children, kind = "", label }) {
  return html`<section class=${`card ${kind}`} aria-label=${label}>
    ${(title || actions) && html`<div class="card-head"><div>${title && html`<h2>${title}</h2>`}${lead && html`<p class="quiet">${lead}</p>`}</div>${actions && html`<div class="actions">${actions}</div>`}</div>`}
    ${children}
  </section>`;
}

export const Empty = ({ title, children, action }) => html`<div class="empty"><p class="empty-title">${title}</p>${children && html`<p>${children}</p>`}${action}</div>`;

export const Chip = ({ kind = "", title, children }) => html`<span class=${`chip ${kind}`} title=${title}>${children}</span>`;

const STATES = {
  ready: ["ok", "ready"], starting: ["wait", "starting"], degraded: ["warn", "degraded"], unreachable: ["bad", "unreachable"],
  "needs-authorization": ["warn", "needs sign-in"], stopped: ["off", "switched off"],
  answered: ["ok", "answered"], running: ["wait", "running"], failed: ["bad", "failed"], "tool-error": ["warn", "tool error"],
  refused: ["warn", "refused"], cancelled: ["off", "cancelled"], asked: ["wait", "asked"], waiting: ["warn", "waiting"], done: ["ok", "done"], ended: ["ok", "ended"],
  "signed-in": ["ok", "signed in"], error: ["bad", "error"], warning: ["warn", "warning"], changed: ["warn", "changed"], info: ["off", "note"], ok: ["ok", "fine"],
};
export const State = ({ is }) => {
  const [kind, word] = STATES[is] ?? ["off", is];
  return html`<span class=${`state ${kind}`}><i aria-hidden="true"></i>${word}</span>`;
};

/** What is said in words, with what is to be typed set apart: it stands between backticks. */
export const Words = ({ text }) => String(text ?? "").split(/`([^`]+)`/).map((piece, index) => (index % 2 ? html`<code>${piece}</code>` : piece));

export function Problem({ error, children }) {
  if (!error) return null;
  return html`<div class="problem" role="alert"><p><${Words} text=${error.message} /></p>${error.hint && html`<p class="quiet"><${Words} text=${error.hint} /></p>`}${children}</div>`;
}

/** What was asked for: waiting, failed, not offered here, or there. */
export function Loaded({ from, children, lacking = "This gateway does not offer this yet." }) {
  if (from.error?.status === 404 && !from.data && from.error.code !== "not-found") return html`<${Empty} title=${lacking} />`;
  if (from.error && !from.data) return html`<${Problem} error=${from.error} />`;
  if (!from.data) return html`<p class="loading" role="status"><span class="hidden">Loading</span><i></i><i></i><i></i></p>`;
  return children(from.data);
}

export function Button({ onClick, children, kind = "", icon, disabled, type = "button", title, label }) {
  const [busy, set] = useState(false);
  const alive = useRef(true);
  useEffect(() => () => { alive.current = false; }, []);
  const press = async (event) => {
    if (!onClick || busy) return;
    const done = onClick(event);
    if (!done?.then) return;
    set(true);
    try { await done; } catch (error) { say(error.message + (error.hint ? " " + error.hint : ""), "bad"); } finally { if (alive.current) set(false); }
  };
  return html`<button type=${type} class=${`button ${kind}`} disabled=${disabled} aria-busy=${busy ? "true" : undefined} aria-label=${label} title=${title} onClick=${press}>${icon && html`<${Icon} name=${icon} />`}${children}</button>`;
}

export function Copy({ text, label = "Copy" }) {
  const [done, set] = useState(false);
  const copy = async () => {
    await copyText(text);
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return html`<${Button} kind="small" icon=${done ? "done" : "copy"} onClick=${copy} label=${label}><span aria-live="polite">${done ? "Copied" : "Copy"}</span><//>`;
}

async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea"); // an address without https has no clipboard
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

export const Code = ({ text, copy = true, label = "Code" }) => html`<div class="code"><pre tabindex="0" aria-label=${label}>${text}</pre>${copy && html`<${Copy} text=${text} label=${`Copy ${label}`} />`}</div>`;

export function Tabs({ tabs, at, onPick, label }) {
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = tabs.map(([name]) => name);
    const next = names[(names.indexOf(at) + step + names.length) % names.length];
    onPick(next);
    event.currentTarget.querySelector(`[data-tab="${CSS.escape(next)}"]`)?.focus();
  };
  const list = useRef(null);
  const first = useRef(tabs[0][0] === at); // which is in sight
  useEffect(() => {
    if (!first.current) list.current.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    first.current = false;
  }, [at]);
  return html`<div class="tabs" role="tablist" ref=${list} aria-label=${label} onKeyDown=${move}>
    ${tabs.map(([name, title]) => html`<button type="button" role="tab" key=${name} data-tab=${name} aria-selected=${name === at ? "true" : "false"} tabindex=${name === at ? 0 : -1} onClick=${() => onPick(name)}>${title}</button>`)}
  </div>`;
}

export function Field({ label, hint, children, error }) {
  return html`<label class="field"><span class="field-label">${label}</span>${hint && html`<span class="quiet">${hint}</span>`}${children}${error && html`<span class="wrong" role="alert">${error}</span>`}</label>`;
}

export const Search = ({ value, onInput, label, placeholder }) => html`<label class="search"><${Icon} name="search" /><span class="hidden">${label}</span><input type="search" value=${value} placeholder=${placeholder ?? label} onInput=${(event) => onInput(event.target.value)} autocomplete="off" spellcheck=${false} /></label>`;

export const Select = ({ value, onPick, options, label }) => html`<label class="select"><span class="hidden">${label}</span><select value=${value} onChange=${(event) => onPick(event.target.value)}>${options.map(([one, title]) => html`<option key=${one} value=${one} selected=${one === value}>${title}</option>`)}</select></label>`;

/** A value that settles: what was typed, once nobody types. */
export function useSettled(value, wait = 200) {
  const [settled, set] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => set(value), wait);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

/** A table that becomes a list of cards on a phone, where cells that say nothing are left out; `columns` are `[title, cell(row), class]`. */
export function Table({ columns, rows, id, label, mark }) {
  return html`<div class="table" role="region" aria-label=${label} tabindex="0"><table>
    <thead><tr>${columns.map(([title, , kind]) => html`<th key=${title} scope="col" class=${kind}>${title || html`<span class="hidden">Actions</span>`}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${id(row)} class=${mark?.(row)}>${columns.map(([title, cell, kind = ""]) => {
      const told = cell(row);
      return html`<td key=${title} class=${told === "–" ? kind + " nothing" : kind} data-title=${title}>${told}</td>`;
    })}</tr>`)}</tbody>
  </table></div>`;
}

export function Pager({ pages, total, shown, what = "entry" }) {
  const many = what.endsWith("y") ? what.slice(0, -1) + "ies" : what + "s";
  if (!pages.next && !pages.previous) return total > shown ? html`<p class="quiet pager">${plural(total, what, many)}</p>` : null;
  return html`<nav class="pager" aria-label="Pages"><${Button} kind="small" disabled=${!pages.previous} onClick=${() => pages.previous()}>Previous<//><span class="quiet" role="status">Page ${pages.number}${total ? ` of ${plural(total, what, many)}` : ""}</span><${Button} kind="small" disabled=${!pages.next} onClick=${() => pages.next()}>Next<//></nav>`;
}

// What is told in passing, and what must be agreed to.

export const toasts = signal([]);
let last = 0;
export function say(text, kind = "ok") {
  const id = ++last;
  toasts.value = [...toasts.value.slice(-3), { id, text, kind }];
  setTimeout(() => { toasts.value = toasts.value.filter((one) => one.id !== id); }, kind === "bad" ? 9000 : 3500);
}

export const Toasts = () => html`<div class="toasts" role="status" aria-live="polite">${toasts.value.map((one) => html`<p key=${one.id} class=${`toast ${one.kind}`}><${Words} text=${one.text} /></p>`)}</div>`;

/** Where one begins in a dialog. */
export const FIRST = "form :is(input, select, textarea), .actions.end button";

export function Dialog({ title, onClose, children }) {
  const box = useRef(null);
  useEffect(() => { box.current.showModal(); box.current.querySelector(FIRST)?.focus(); }, []);
  return html`<dialog ref=${box} aria-label=${title} onClose=${onClose} onClick=${(event) => event.target === box.current && box.current.close()}>
    <div class="dialog"><div class="card-head"><h2>${title}</h2><${Button} kind="small plain" icon="close" label="Close" onClick=${() => box.current.close()} /></div>${children}</div>
  </dialog>`;
}

const asked = signal(null);
/** Ask whether it is meant; true if so. */
export const sure = (title, text, yes) => new Promise((resolve) => { asked.value = { title, text, yes, resolve }; });

export function Asked() {
  const one = asked.value;
  if (!one) return null;
  const end = (answer) => { asked.value = null; one.resolve(answer); };
  return html`<${Dialog} title=${one.title} onClose=${() => end(false)}><p>${one.text}</p><div class="actions end"><${Button} onClick=${() => end(false)}>Leave it<//><${Button} kind="danger" onClick=${() => end(true)}>${one.yes}<//></div><//>`;
}

/** JSON for people, in the colours of its kinds. */
export function Json({ value, label = "JSON" }) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const [all, setAll] = useState(false);
  const shown = all || text.length <= LONG ? text : text.slice(0, LONG);
  const parts = shown.length > 60_000 ? shown : shown.split(TOKEN).map((piece, index) => (index % 2 ? html`<span class=${kindOf(piece)}>${piece}</span>` : piece));
  return html`<div class="code"><pre tabindex="0" aria-label=${label}>${parts}${shown.length < text.length && "…"}</pre><${Copy} text=${text} label=${`Copy ${label}`} /></div>
    ${shown.length < text.length && html`<${Button} kind="small" onClick=${() => setAll(true)}>Show all (${size(text.length)})<//>`}`;
}

export const LONG = 20_000;
const TOKEN = /("(?:[^"\\]|\\.)*"(?:\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/;
const kindOf = (piece) => (piece.endsWith(":") ? "json-key" : piece[0] === '"' ? "json-text" : "json-value");
