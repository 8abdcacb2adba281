// Lines over time, with the same figures in words for those who do not see them.
import { html, useState } from "./vendor/preact.js";
import { clock } from "./ui.js";

/** `lines` are `{label, values, kind}`, with `null` where nothing was; `format` puts a value into words. */
export function Chart({ times, lines, format, label }) {
  const [at, point] = useState(null);
  const most = Math.max(0, ...lines.flatMap((line) => line.values));
  const top = niceAbove(most);
  const told = lines.map((line) => `${line.label}: ${format(lastOf(line.values))}, at most ${format(Math.max(0, ...line.values))}`);
  const move = (event) => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    point(Math.max(0, Math.min(times.length - 1, Math.round(((event.clientX - left) / width) * (times.length - 1)))));
  };
  const here = at == null ? null : Math.min(at, times.length - 1);
  return html`<div class="chart"><div class="plot" role="img" aria-label=${`${label}. ${told.join("; ")}.`} onPointerMove=${move} onPointerLeave=${() => point(null)}>
      <span class="top">${format(top)}</span>
      <svg class="lines" viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">
        ${lines.map((line) => html`<g key=${line.label} class=${line.kind}>${line.fill && html`<path class="area" d=${areaOf(line.values, top)} />`}<path class=${points(line.values, top).length === 1 ? "dot" : ""} d=${pathOf(line.values, top)} /></g>`)}
        ${here != null && html`<path class="here" d=${`M${x(here, times)} 0V100`} />`}
      </svg></div>
    <p class="times quiet" aria-hidden="true">${here == null ? html`<span>${clock(times[0])}</span><span>now</span>` : html`<span>${clock(times[here])}</span><span>${lines.map((line) => (line.values[here] == null ? "–" : format(line.values[here]))).join(" · ")}</span>`}</p></div>`;
}

const x = (index, all) => ((index / Math.max(1, all.length - 1)) * 100).toFixed(2);
const lastOf = (values) => values.findLast((one) => one != null) ?? 0;
const points = (values, top) => values.flatMap((one, index) => (one == null ? [] : [`${x(index, values)} ${(100 - (one / top) * 100).toFixed(2)}`]));
const pathOf = (values, top) => { const all = points(values, top); return all.length === 1 ? `M${all[0]}h.01` : all.length ? `M${all.join("L")}` : ""; };
const areaOf = (values, top) => `M0 100L${points(values, top).join("L")}L100 100Z`;

/** The next round number: 1, 2 or 5 times a power of ten. */
function niceAbove(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= value);
}
