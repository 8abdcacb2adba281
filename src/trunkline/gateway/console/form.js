// A form made from a JSON Schema: for the arguments of a tool, and for what is asked.
import { html, useState } from "./vendor/preact.js";
import { Button, Tabs } from "./ui.js";

const DEEPEST = 5;

/** The schema that is meant: references within the document followed, "or null" left out, the parts of `allOf` put together. */
export function plainSchema(schema, root, depth = 0) {
  if (!schema || typeof schema !== "object" || depth > 20) return {};
  if (typeof schema.$ref === "string") {
    if (!schema.$ref.startsWith("#/")) return {};
    const found = schema.$ref.slice(2).split("/").reduce((at, key) => at?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], root);
    const { $ref, ...rest } = schema;
    return plainSchema({ ...found, ...rest }, root, depth + 1);
  }
  const some = (schema.anyOf ?? schema.oneOf)?.filter((one) => one?.type !== "null");
  if (some?.length === 1) return plainSchema({ ...schema, anyOf: undefined, oneOf: undefined, ...some[0] }, root, depth + 1);
  if (schema.allOf?.length === 1) return plainSchema({ ...schema, allOf: undefined, ...schema.allOf[0] }, root, depth + 1);
  if (some?.length && some.every((one) => "const" in one)) return { ...schema, enum: some.map((one) => one.const), enumNames: some.map((one) => one.title ?? String(one.const)) };
  if (Array.isArray(schema.type)) return { ...schema, type: schema.type.find((one) => one !== "null") };
  return schema;
}

/** What a form begins with: what must be said, and what has a default. */
export function startOf(schema, root = schema, depth = 0) {
  const plain = plainSchema(schema, root);
  if (plain.default !== undefined) return plain.default;
  if (plain.type !== "object" || depth > DEEPEST) return undefined;
  const made = {};
  for (const [name, own] of Object.entries(plain.properties ?? {})) {
    const value = startOf(own, root, depth + 1);
    const needed = plain.required?.includes(name);
    if (value !== undefined && (needed || plainSchema(own, root).default !== undefined)) made[name] = value;
    else if (needed && plainSchema(own, root).type === "boolean") made[name] = false;
  }
  return made;
}

const isText = (plain) => !plain.type || plain.type === "string";

function Input({ plain, value, onChange, id, required, describedby }) {
  const text = (event) => onChange(event.target.value === "" ? undefined : event.target.value);
  const figure = (event) => onChange(event.target.value === "" ? undefined : Number(event.target.value));
  const shared = { id, required, "aria-describedby": describedby };
  if (plain.enum) {
    const at = plain.enum.findIndex((one) => JSON.stringify(one) === JSON.stringify(value));
    return html`<select ...${shared} value=${String(at)} onChange=${(event) => onChange(plain.enum[Number(event.target.value)])}>
      <option value="-1" selected=${at < 0}>${required ? "Choose…" : "–"}</option>
      ${plain.enum.map((one, index) => html`<option key=${index} value=${String(index)} selected=${index === at}>${plain.enumNames?.[index] ?? String(one)}</option>`)}
    </select>`;
  }
  if (plain.type === "boolean") return html`<input ...${shared} required=${false} type="checkbox" checked=${value === true} onChange=${(event) => onChange(event.target.checked)} />`;
  if (plain.type === "integer" || plain.type === "number") return html`<input ...${shared} type="number" step=${plain.type === "integer" ? 1 : "any"} min=${plain.minimum} max=${plain.maximum} value=${value ?? ""} onInput=${figure} />`;
  const kind = { date: "date", email: "email", uri: "url", password: "password" }[plain.format];
  if (kind) return html`<input ...${shared} type=${kind} value=${value ?? ""} onInput=${text} autocomplete="off" />`;
  const rows = String(value ?? "").includes("\n") ? 5 : 1;
  return html`<textarea ...${shared} rows=${rows} class="grows" spellcheck=${false} value=${value ?? ""} onInput=${text}></textarea>`;
}

function RawInput({ value, onChange, id, required, describedby }) {
  const [text, set] = useState(value === undefined ? "" : JSON.stringify(value, null, 2));
  const [wrong, setWrong] = useState("");
  const read = (event) => {
    set(event.target.value);
    try { onChange(event.target.value.trim() ? JSON.parse(event.target.value) : undefined); setWrong(""); } catch { setWrong("This is not JSON yet."); }
  };
  return html`<textarea id=${id} rows="4" class="mono" spellcheck=${false} required=${required} aria-describedby=${describedby} aria-invalid=${wrong ? "true" : undefined} value=${text} onInput=${read} placeholder="JSON"></textarea>${wrong && html`<span class="wrong">${wrong}</span>`}`;
}

function List({ plain, root, value, onChange, id, depth }) {
  const items = Array.isArray(value) ? value : [];
  const put = (index, one) => onChange(items.map((was, at) => (at === index ? one : was)));
  const drop = (index) => onChange(items.length === 1 ? undefined : items.filter((_, at) => at !== index));
  const fresh = () => startOf(plain.items, root) ?? ({ string: "", number: 0, integer: 0, boolean: false, object: {}, array: [] })[plainSchema(plain.items, root).type] ?? null;
  return html`<div class="items" id=${id} role="group">${items.map((one, index) => html`<div class="item" key=${index}>
      <${Value} schema=${plain.items} root=${root} value=${one} onChange=${(next) => put(index, next === undefined ? "" : next)} id=${`${id}-${index}`} depth=${depth + 1} label=${`Item ${index + 1}`} bare />
      <${Button} kind="small plain" icon="close" label=${`Remove item ${index + 1}`} onClick=${() => drop(index)} /></div>`)}
    <${Button} kind="small" icon="plus" onClick=${() => onChange([...items, fresh()])}>Add<//></div>`;
}

/** One value: its name, what is said of it, and where it is put in. */
function Value({ schema, root, value, onChange, id, depth, label, required, bare }) {
  const plain = plainSchema(schema, root);
  const about = plain.description ? `${id}-about` : undefined;
  const nested = plain.type === "object" && plain.properties && Object.keys(plain.properties).length && depth < DEEPEST;
  if (nested) return html`<fieldset class="nested"><legend>${label}${required && html`<span class="needed"> required</span>`}</legend>${plain.description && html`<p class="quiet">${plain.description}</p>`}
    <${Fields} schema=${plain} root=${root} value=${value ?? {}} onChange=${onChange} id=${id} depth=${depth + 1} /></fieldset>`;
  const simple = plain.enum || ["boolean", "integer", "number"].includes(plain.type) || (isText(plain) && !plain.anyOf && !plain.oneOf && !plain.allOf && plain.type);
  const many = plain.type === "array" && plain.items && depth < DEEPEST;
  const control = many ? html`<${List} plain=${plain} root=${root} value=${value} onChange=${onChange} id=${id} depth=${depth} />`
    : simple ? html`<${Input} plain=${plain} value=${value} onChange=${onChange} id=${id} required=${required} describedby=${about} />`
    : html`<${RawInput} value=${value} onChange=${onChange} id=${id} required=${required} describedby=${about} />`;
  const named = many ? html`<span class="field-label">${label}</span>` : html`<label class=${bare ? "hidden" : "field-label"} for=${id}>${label}</label>`;
  return html`<div class=${`field ${plain.type === "boolean" && !plain.enum ? "check" : ""}`}>
    <span class="field-head">${named}${required && !bare && html`<span class="needed">required</span>`}</span>
    ${plain.description && !bare && html`<span class="quiet about" id=${about}>${plain.description}</span>`}
    ${control}</div>`;
}

/** The fields of an object; required ones first. */
export function Fields({ schema, root = schema, value, onChange, id = "f", depth = 0 }) {
  const plain = plainSchema(schema, root);
  const needed = plain.required ?? [];
  const names = Object.keys(plain.properties ?? {}).sort((one, other) => needed.includes(other) - needed.includes(one));
  const put = (name, next) => {
    const { [name]: was, ...rest } = value ?? {};
    onChange(next === undefined ? rest : { ...rest, [name]: next });
  };
  return html`<div class="fields">${names.map((name, index) => {
    const own = plainSchema(plain.properties[name], root);
    return html`<${Value} key=${name} schema=${own} root=${root} value=${value?.[name]} onChange=${(next) => put(name, next)} id=${`${id}-${index}`} depth=${depth} label=${own.title || name} required=${needed.includes(name)} />`;
  })}</div>`;
}

/** Arguments, as a form or as JSON. */
export function Arguments({ schema, value, onChange }) {
  const plain = plainSchema(schema, schema);
  const formable = Object.keys(plain.properties ?? {}).length > 0;
  const [mode, set] = useState("form");
  if (!formable && !plain.additionalProperties && plain.type === "object" && !plain.anyOf && !plain.oneOf) return html`<p class="quiet">It takes no arguments.</p>`;
  const raw = mode === "json" || !formable;
  return html`${formable && html`<${Tabs} label="How arguments are given" tabs=${[["form", "Form"], ["json", "JSON"]]} at=${mode} onPick=${set} />`}
    ${raw ? html`<div class="field"><label class="hidden" for="raw">Arguments as JSON</label><${RawInput} value=${value} onChange=${(next) => onChange(next ?? {})} id="raw" /></div>` : html`<${Fields} schema=${schema} value=${value} onChange=${onChange} />`}`;
}
