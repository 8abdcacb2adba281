// Lines over time. Drawn on a canvas, with the same figures in words for those who do not see it.
import uPlot from "./vendor/uplot.js";
import { html, useEffect, useRef } from "./vendor/preact.js";

/** `lines` are `{label, values, color (a custom property), fill}`; `format` puts a value into words. */
export default function Chart({ times, lines, format, label }) {
  const box = useRef(null);
  useEffect(() => {
    const place = box.current; // gone from `box` before what is below ends
    let plot = null;
    const draw = () => {
      plot?.destroy();
      plot = new uPlot(options(place, lines, format), [times, ...lines.map((line) => line.values)], place);
    };
    draw();
    const sized = new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: HEIGHT }));
    sized.observe(place);
    const looks = matchMedia("(prefers-color-scheme: dark)");
    looks.addEventListener("change", draw);
    const themed = new MutationObserver(draw);
    themed.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => { sized.disconnect(); themed.disconnect(); looks.removeEventListener("change", draw); plot.destroy(); };
  }, [times, lines]);
  const told = lines.map((line) => `${line.label}: ${format(lastOf(line.values))}, at most ${format(Math.max(0, ...line.values.filter((one) => one != null)))}`);
  return html`<div class="chart" role="img" aria-label=${`${label}. ${told.join("; ")}.`} ref=${box}></div>`;
}

const HEIGHT = 132;
const lastOf = (values) => values.findLast((one) => one != null) ?? 0;

function options(box, lines, format) {
  const style = getComputedStyle(box);
  const color = (name) => style.getPropertyValue(name).trim();
  const font = `11px ${style.fontFamily}`;
  const axis = { stroke: color("--quiet"), font, ticks: { show: false } };
  return {
    width: box.clientWidth, height: HEIGHT, padding: [8, 4, 0, 0], legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.12 : 1] } },
    axes: [
      { ...axis, grid: { show: false }, space: 64, size: 26, values: (_, splits) => splits.map((at) => new Date(at * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" })) },
      { ...axis, grid: { stroke: color("--line"), width: 1 }, size: 46, space: 34, values: (_, splits) => splits.map(format) },
    ],
    series: [{}, ...lines.map((line) => ({
      label: line.label, stroke: color(line.color), width: 1.6, spanGaps: true, points: { show: false },
      fill: line.fill ? color(line.color) + "22" : undefined,
    }))],
  };
}
