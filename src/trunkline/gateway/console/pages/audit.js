// The record that nobody can quietly change.
import { html, useState } from "../vendor/preact.js";
import { usePages } from "../api.js";
import { Chip, Empty, Loaded, Page, Pager, Select, State, Table, When, duration, useSettled } from "../ui.js";

const KINDS = [["", "Any kind"], ...["call", "question", "sign-in", "change", "refusal", "process", "start", "stop", "file", "retention", "lost", "torn"].map((one) => [one, one])];

export default function Audit() {
  const [wanted, set] = useState({ kind: "", user: "" });
  const pages = usePages("audit", { ...useSettled(wanted, 250), limit: 50 }, "lines");
  const text = (name, label) => html`<label><span class="hidden">${label}</span><input value=${wanted[name]} placeholder=${label} onInput=${(event) => set({ ...wanted, [name]: event.target.value })} autocomplete="off" spellcheck=${false} /></label>`;
  const off = pages.error?.code === "not-found";
  return html`<${Page} title="Audit" lead="Who did what, when, and how it ended. Each line seals the one before; trunkline audit verify checks them.">
    ${off ? html`<${Empty} title=${pages.error.message}>${pages.error.hint}<//>` : html`<div class="filters"><${Select} label="Kind" value=${wanted.kind} onPick=${(kind) => set({ ...wanted, kind })} options=${KINDS} />${text("user", "User")}</div>
    <${Loaded} from=${pages}>${({ lines }) => (lines.length ? html`<${Table} label="Audit" rows=${lines} id=${(one) => one.n} columns=${COLUMNS} /><${Pager} pages=${pages} what="line" />` : html`<${Empty} title="Nothing fits" />`)}<//>`}
  <//>`;
}

const KNOWN = new Set(["n", "time", "kind", "who", "outcome", "seconds", "hash", "before", "name", "what", "call", "path"]);
const title = (one) => one.name ?? (one.path && `${one.method ?? ""} ${one.path}`) ?? one.what ?? one.kind;
/** What else a line says; of a call the method and the tool only where its name does not. */
const more = (one) => Object.entries(one).filter(([name, value]) => !KNOWN.has(name) && value !== "" && !(name === "method" && (one.path || value === "tools/call")) && !(name === "tool" && one.name?.endsWith(value))).map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(" · ");
const COLUMNS = [
  ["What", (one) => html`<b class="strong cut">${title(one)}</b><span class="quiet cut" title=${more(one)}>${more(one)}</span>`, "wide"],
  ["Kind", (one) => html`<${Chip}>${one.kind}<//>`], ["Who", (one) => one.who?.user ?? one.who?.role ?? "–"], ["Outcome", (one) => (one.outcome ? html`<${State} is=${one.outcome} />` : one.status ?? "–")],
  ["Duration", (one) => duration(one.seconds), "num"], ["When", (one) => html`<${When} at=${Date.parse(one.time) / 1000} />`, "num"],
];
