// Charts of time series with uPlot: lines from zero, gaps for missing data, labels at the
// ends of lines, markers of versions, one cursor for all charts, and a table view.
import { h } from "./lib/preact.js";
import { useEffect, useRef, useState } from "./lib/hooks.js";
import { t, clock, rate, lang } from "./i18n.js";
import { Table } from "./ui.js";

const { uPlot } = globalThis;
const sync = uPlot.sync("time");

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// Chart shows columns of a Series for the last n seconds. A line is {name, label, color,
// dash}; versions are {at, version}.
export function Chart({ title, series, lines, seconds, versions = [], form = rate, unit, height = 180 }) {
  const box = useRef();
  const plot = useRef();
  const current = useRef();
  const [table, setTable] = useState(false);
  const [themes, setThemes] = useState(0);
  current.current = { series, lines, seconds, versions, form };
  const data = () => {
    const { series: s, lines: l, seconds: n } = current.current;
    const d = s.window(n, l.map((x) => x.name));
    return d[0].length ? d : [[0, 1], ...l.map(() => [null, null])];
  };

  useEffect(() => {
    const redraw = () => setThemes((n) => n + 1);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", redraw);
    addEventListener("weir-theme", redraw);
    return () => {
      dark.removeEventListener("change", redraw);
      removeEventListener("weir-theme", redraw);
    };
  }, []);

  useEffect(() => {
    if (table) return undefined;
    const el = box.current;
    const p = new uPlot(options(el.clientWidth, height, lines, current, unit), data(), el);
    plot.current = p;
    sync.sub(p);
    const resize = new ResizeObserver(() => {
      if (el.clientWidth && el.clientWidth !== p.width) p.setSize({ width: el.clientWidth, height });
    });
    resize.observe(el);
    return () => {
      resize.disconnect();
      sync.unsub(p);
      p.destroy();
      plot.current = null;
    };
  }, [table, themes, lines.map((l) => l.name).join(), height]);

  useEffect(() => {
    plot.current?.setData(data());
  });

  const latest = lines.map((l) => `${l.label} ${form(series.values[l.name].at(-1))}`).join(", ");
  return h("figure", { class: "chart" },
    h("figcaption", null,
      h("span", { class: "chart-title" }, title, unit && h("span", { class: "muted" }, " " + unit)),
      h("span", { class: "legend" }, lines.map((l) => h("span", { class: "key", key: l.name },
        h("svg", { width: 14, height: 8, "aria-hidden": "true" }, h("line", { x1: 0, x2: 14, y1: 4, y2: 4, class: "line " + l.color + (l.dash ? " dash" : "") })), l.label))),
      h("button", { type: "button", class: "plain small", "aria-pressed": String(table), onClick: () => setTable(!table) }, table ? t("chart.chart") : t("chart.table"))),
    table
      ? h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, h(Table, {
        columns: [{ label: t("chart.time"), cell: (r) => clock(r[0]) },
          ...lines.map((l, i) => ({ label: l.label, num: true, cell: (r) => form(r[i + 1]) }))],
        rows: series.table(seconds, lines.map((l) => l.name), 10), id: (r) => r[0], empty: t("chart.empty"), wide: true }))
      : h("div", { class: "plot", ref: box, role: "img", "aria-label": `${title}: ${latest}` }));
}

function options(width, height, lines, current, unit) {
  const grid = { stroke: color("hairline"), width: 1 };
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: color("muted"), grid, ticks: { show: false }, font };
  return {
    width, height, padding: [12, 56, 0, 0], legend: { show: false }, select: { show: false },
    cursor: { sync: { key: "time" }, drag: { x: false, y: false }, points: { size: 5 } },
    scales: { x: { time: true, range: (_, lo, hi) => [hi - current.current.seconds + 1, hi] }, y: { range: (_, lo, hi) => [0, hi > 0 ? hi * 1.1 : 1] } },
    axes: [
      { ...axis, size: 24, space: 90, values: (_, at, axis, space, step) => at.map((s) => clock(s).slice(0, step < 60 ? 8 : 5)), grid: { show: false } },
      { ...axis, size: 52, space: 36, values: (_, at) => at.map((n) => current.current.form(n)) },
    ],
    series: [{}, ...lines.map((l) => ({
      label: l.label, stroke: color(l.color), width: 1.5, dash: l.dash ? [5, 4] : undefined, spanGaps: false, points: { show: false },
    }))],
    hooks: {
      draw: [(u) => versionMarkers(u, current.current.versions, font), (u) => endLabels(u, lines, current.current.form, font)],
      setCursor: [(u) => readout(u, lines, current.current.form)],
    },
  };
}

// versionMarkers draws a line at each published version.
function versionMarkers(u, versions, font) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.font = scaled(font);
  ctx.fillStyle = ctx.strokeStyle = color("muted");
  ctx.textAlign = "left";
  ctx.setLineDash([2 * devicePixelRatio, 2 * devicePixelRatio]);
  for (const v of versions) {
    const at = typeof v.at === "number" ? v.at : Date.parse(v.at) / 1000;
    if (!(at >= u.scales.x.min && at <= u.scales.x.max)) continue;
    const x = Math.round(u.valToPos(at, "x", true)) + 0.5;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillText("v" + v.version, x + 4 * devicePixelRatio, bbox.top + 10 * devicePixelRatio);
  }
  ctx.restore();
}

// endLabels writes the latest value of each line at its end, without overlaps.
function endLabels(u, lines, form, font) {
  const { ctx, bbox } = u;
  const labels = [];
  lines.forEach((l, i) => {
    const values = u.data[i + 1];
    const j = values.findLastIndex((v) => v != null);
    if (j >= 0 && j >= values.length - 5) labels.push({ y: u.valToPos(values[j], "y", true), text: form(values[j]), color: color(l.color) });
  });
  labels.sort((a, b) => b.y - a.y);
  const gap = 13 * devicePixelRatio;
  for (let i = 1; i < labels.length; i++) labels[i].y = Math.min(labels[i].y, labels[i - 1].y - gap);
  ctx.save();
  ctx.font = scaled(font);
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (const l of labels) {
    ctx.fillStyle = l.color;
    ctx.fillText(l.text, bbox.left + bbox.width + 6 * devicePixelRatio, l.y);
  }
  ctx.restore();
}

const scaled = (font) => font.replace(/^(\d+)px/, (_, n) => `${n * devicePixelRatio}px`);

// readout shows the values under the cursor.
function readout(u, lines, form) {
  let el = u.over.querySelector(".readout");
  if (!el) {
    el = document.createElement("div");
    el.className = "readout";
    u.over.append(el);
  }
  const i = u.cursor.idx;
  el.hidden = i == null || u.cursor.left < 0;
  if (el.hidden) return;
  el.textContent = [clock(u.data[0][i]), ...lines.map((l, j) => `${l.label} ${form(u.data[j + 1][i])}`)].join(lang === "zh" ? "　" : "   ");
  el.classList.toggle("left", u.cursor.left > u.over.clientWidth / 2);
}

// Histogram shows numbers of keys by rate on a log scale, with a line at the threshold.
export function Histogram({ title, buckets, at, unit }) {
  const [table, setTable] = useState(false);
  const top = Math.max(1, ...buckets.map((b) => b.keys));
  const W = 600, H = 120, base = H - 18;
  const lo = Math.log10(Math.max(0.001, buckets[0]?.from || buckets[0]?.to / 2 || 0.1));
  const hi = Math.log10(Math.max(1, buckets.at(-1)?.to || 1));
  const x = (v) => Math.max(0, Math.min(W, ((Math.log10(Math.max(v, 1e-9)) - lo) / Math.max(0.01, hi - lo)) * W));
  const ticks = [];
  for (let e = Math.ceil(lo); e <= hi; e++) ticks.push(10 ** e);
  if (ticks.length < 3 && buckets.length <= 8) ticks.splice(0, ticks.length, ...buckets.map((b) => b.from), buckets.at(-1)?.to); // less than two decades
  return h("figure", { class: "chart" },
    h("figcaption", null, h("span", { class: "chart-title" }, title, unit && h("span", { class: "muted" }, " " + unit)),
      h("button", { type: "button", class: "plain small", "aria-pressed": String(table), onClick: () => setTable(!table) }, table ? t("chart.chart") : t("chart.table"))),
    table
      ? h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, h(Table, { rows: buckets, id: (b) => b.from, wide: true, columns: [
        { label: t("histogram.from"), num: true, cell: (b) => rate(b.from) },
        { label: t("histogram.to"), num: true, cell: (b) => rate(b.to) },
        { label: t("histogram.keys"), num: true, cell: (b) => rate(b.keys) }] }))
      : h("svg", { class: "histogram", viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", role: "img", "aria-label": title },
        buckets.map((b) => {
          const left = x(b.from || b.to / 2), right = x(b.to), y = b.keys ? Math.max(2, (Math.sqrt(b.keys) / Math.sqrt(top)) * (base - 12)) : 0;
          return h("rect", { key: b.from, class: b.from >= at ? "over" : "under", x: left + 0.5, width: Math.max(1, right - left - 1), y: base - y, height: y });
        }),
        h("line", { class: "axis", x1: 0, x2: W, y1: base + 0.5, y2: base + 0.5 }),
        h("line", { class: "threshold", x1: x(at), x2: x(at), y1: 0, y2: base })),
    !table && h("div", { class: "ticks", "aria-hidden": "true" }, ticks.map((v) => h("span", { key: v, class: x(v) > 0.96 * W ? "end" : undefined, style: { left: (100 * x(v)) / W + "%" } }, rate(v)))));
}
