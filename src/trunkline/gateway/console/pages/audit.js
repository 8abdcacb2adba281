// The record that nobody can quietly change.
import { html, useState } from "../vendor/preact.js";
import { usePages } from "../api.js";
import { Chip, Empty, Loaded, Page, Pager, Problem, Table, When, duration, useSettled } from "../ui.js";

export default function Audit() {
  const [wanted, set] = useState({ kind: "", user: "" });
  const pages = usePages("audit", { ...useSettled(wanted, 250), limit: 50 }, "entries");
  const text = (name, label) => html`<label><span class="hidden">${label}</span><input value=${wanted[name]} placeholder=${label} onInput=${(event) => set({ ...wanted, [name]: event.target.value })} autocomplete="off" spellcheck=${false} /></label>`;
  return html`<${Page} title="Audit" lead="Who did what, when, and how it ended. Each line seals the one before.">
    <div class="filters">${text("kind", "Kind")}${text("user", "User")}</div>
    <${Loaded} from=${pages}>${({ entries, verified }) => html`
      ${verified === false && html`<${Problem} error=${{ message: "The chain is broken: something was changed or removed.", hint: "trunkline audit verify says where." }} />`}
      ${entries.length ? html`<${Table} label="Audit" rows=${entries} id=${(one) => one.id} columns=${COLUMNS} /><${Pager} pages=${pages} what="entry" />` : html`<${Empty} title="Nothing is recorded">It is switched on with [audit] in trunkline.toml.<//>`}`}<//>
  <//>`;
}

const COLUMNS = [
  ["What", (one) => html`<b class="strong cut">${one.what}</b><span class="quiet cut mono">${one.digest}</span>`, "wide"],
  ["Kind", (one) => html`<${Chip}>${one.kind}<//>`], ["User", (one) => one.user || "–"], ["Outcome", (one) => one.outcome || "–"],
  ["Duration", (one) => duration(one.seconds), "num"], ["When", (one) => html`<${When} at=${one.time} />`, "num"],
];
