// What a tool answered: text, images, structures, large things and links, none of which can do anything here.
import { html, useState } from "./vendor/preact.js";
import { Button, Chip, Copy, Json, Link, LONG, size } from "./ui.js";

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

export function Result({ result }) {
  const blocks = Array.isArray(result.content) ? result.content : [];
  const structured = result.structuredContent;
  const same = structured !== undefined && blocks.length === 1 && blocks[0].type === "text" && isSame(blocks[0].text, structured);
  return html`<div class=${`result ${result.isError ? "is-error" : ""}`}>
    ${result.isError && html`<${Chip} kind="bad">The tool says it failed<//>`}
    ${!same && blocks.map((block, index) => html`<${Block} key=${index} block=${block} />`)}
    ${structured !== undefined && html`<h3>Structured</h3><${Json} value=${structured} label="Structured result" />`}
    ${!blocks.length && structured === undefined && html`<p class="quiet">It answered with nothing.</p>`}
  </div>`;
}

function isSame(text, value) {
  if (value && Object.keys(value).length === 1 && value.result === text) return true; // a text that was wrapped to be an object
  try { return JSON.stringify(JSON.parse(text)) === JSON.stringify(value); } catch { return false; }
}

function Block({ block }) {
  const { resource = {} } = block;
  switch (block.type) {
    case "text": return html`<${Text} text=${String(block.text ?? "")} />`;
    case "image": return html`<${Picture} data=${block.data} kind=${block.mimeType} />`;
    case "audio": return html`<${Kept} data=${block.data} kind=${block.mimeType} name="audio" />`;
    case "resource_link": return html`<p class="linked"><${Link} to=${block.uri}>${block.title || block.name || block.uri}<//> <span class="quiet">${block.description || block.uri}</span></p>`;
    case "resource":
      if (typeof resource.text === "string") return html`<p class="quiet">${resource.uri}</p><${Text} text=${resource.text} />`;
      return PICTURES.has(resource.mimeType) ? html`<${Picture} data=${resource.blob} kind=${resource.mimeType} /> ` : html`<${Kept} data=${resource.blob} kind=${resource.mimeType} name=${resource.uri} />`;
    default: return html`<${Json} value=${block} label="Part of the result" />`;
  }
}

function Text({ text }) {
  const [all, set] = useState(false);
  const parsed = text.length < 200_000 && /^\s*[[{]/.test(text) ? json(text) : undefined;
  if (parsed !== undefined) return html`<${Json} value=${parsed} label="Text of the result" />`;
  const shown = all ? text : text.slice(0, LONG);
  return html`<div class="code"><pre tabindex="0" class="wraps" aria-label="Text of the result">${shown}${shown.length < text.length && "…"}</pre><${Copy} text=${text} label="Copy the text" /></div>
    ${shown.length < text.length && html`<div class="actions"><${Button} kind="small" onClick=${() => set(true)}>Show all (${size(text.length)})<//><${Button} kind="small" onClick=${() => save(new Blob([text]), "result.txt")}>Download<//></div>`}`;
}

function json(text) {
  try { return JSON.parse(text); } catch { return undefined; }
}

function Picture({ data, kind }) {
  // An SVG is a document, and may hold more than a picture: it is kept, not shown.
  if (!PICTURES.has(kind) || !/^[A-Za-z0-9+/=\s]*$/.test(data ?? "")) return html`<${Kept} data=${data} kind=${kind} name="image" />`;
  return html`<figure><img src=${`data:${kind};base64,${data}`} alt="What the tool answered" /><figcaption class="quiet">${kind}, ${size(Math.floor(data.length * 0.75))}</figcaption></figure>`;
}

function Kept({ data = "", kind = "application/octet-stream", name = "file" }) {
  const keep = () => save(new Blob([bytes(data)], { type: "application/octet-stream" }), String(name).replace(/[^\w.-]+/g, "_").slice(-60) || "file");
  return html`<p class="linked"><${Chip}>${kind}<//> <span class="quiet">${size(Math.floor(String(data).length * 0.75))}</span> <${Button} kind="small" onClick=${keep}>Download<//></p>`;
}

function bytes(data) {
  try { return Uint8Array.from(atob(data), (one) => one.charCodeAt(0)); } catch { return String(data); }
}

function save(blob, name) {
  const url = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
