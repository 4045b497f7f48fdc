// The curves of a sale, with uPlot: charts of the figures that all processes share, each also as
// a table.
import { table } from "./desk.js";
import { h, put } from "./dom.js";
import { digits, locale, money, number, t } from "./text.js";

const { uPlot } = globalThis;
const HEIGHT = 190;
const MAX_POINTS = 600; // above it, the server's merged points replace those of this page
const MAX_ROWS = 60;
const MINUTE = 60_000;
const DAY = 20 * 60 * MINUTE; // from here on, times have a date

// The time ranges in milliseconds, until the latest point.
const RANGES = { all: Infinity, hour: 60 * MINUTE, minutes: 10 * MINUTE };

// A line is [column, colour, dashes].
const CHARTS = [
  { name: "orders", lines: [["admitted", "blue", [7, 4]], ["reserved", "brown", [2, 3]], ["paid", "accent"]] },
  { name: "revenue", lines: [["revenue", "green"]] },
  { name: "conversion", lines: [["conversion", "accent"]] },
  { name: "waiting", lines: [["waiting", "blue"]] },
  { name: "free", lines: [["free", "brown"]] },
];

const compact = new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 });
const share = new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const second = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const dated = new Intl.DateTimeFormat(locale, { month: "numeric", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

// when formats a time so that times of a span differ.
const when = (at, span) => (span > DAY ? dated : span > 4 * MINUTE ? clock : second).format(at);

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// pointOf returns a row of the API as an object, with its conversion.
function pointOf(columns, row) {
  const p = Object.fromEntries(columns.map((c, i) => [c, row[i]]));
  return { ...p, conversion: p.admitted > 0 ? p.paid / p.admitted : 0 };
}

// Curves is a section with the charts of one sale.
export class Curves {
  #points = [];
  #sale = null;
  #live = null; // the figures of the last board, if they can change
  #now = 0;
  #range = "all";

  constructor() {
    this.charts = CHARTS.map((c) => new Chart(c));
    this.ranges = Object.keys(RANGES).map((name) => h("button", {
      type: "button", class: "plain", "data-range": name, "aria-pressed": String(name === this.#range), onclick: () => this.#choose(name),
    }, t(`curves.range.${name}`)));
    this.el = h("section", { class: "card", id: "curves", hidden: true, "aria-labelledby": "curves-title" },
      h("div", { class: "row apart" }, h("h2", { id: "curves-title" }, t("curves.title")),
        h("div", { class: "ranges", role: "group", "aria-label": t("curves.range") }, this.ranges)),
      h("div", { class: "charts" }, this.charts.map((c) => c.el)));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      for (const c of this.charts) c.restart();
      this.draw();
    });
  }

  // query asks for the points that this page does not have. The latest one may have changed.
  get query() {
    return this.#points.length === 0 ? "" : `?from=${this.#points.at(-1).at}`;
  }

  // add adds the points of a board, and its figures as the latest point.
  add(board) {
    const { columns, rows } = board.curves;
    if (rows.length > 0) this.#points = [...this.#points.filter((p) => p.at < rows[0][0]), ...rows.map((r) => pointOf(columns, r))];
    const { tally, counts, view } = board;
    this.#sale = tally.sale;
    this.#live = null;
    this.#now = Date.parse(view.now);
    const last = this.#points.at(-1);
    if (last && tally.sale.state !== "ended" && this.#now > last.at) {
      const reserved = Math.max(last.reserved, tally.pending + tally.paid + tally.expired + tally.cancelled);
      const admitted = Math.max(last.admitted, reserved);
      this.#live = { at: this.#now, admitted, reserved, paid: tally.paid, revenue: tally.paid * tally.sale.price, conversion: admitted > 0 ? tally.paid / admitted : 0,
        waiting: counts.now === "" ? last.waiting : counts.waiting, free: counts.now === "" ? last.free : counts.free };
    }
    this.draw();
    if (this.#points.length > MAX_POINTS) this.#points = [];
  }

  #choose(name) {
    this.#range = name;
    for (const b of this.ranges) b.setAttribute("aria-pressed", String(b.dataset.range === name));
    this.draw();
  }

  draw() {
    if (this.#points.length === 0) return;
    const points = this.#live ? [...this.#points, this.#live] : this.#points;
    const to = points.at(-1).at;
    let from = Math.max(points[0].at, to - RANGES[this.#range]);
    const starts = Date.parse(this.#sale.starts_at) - this.#sale.lobby_ms - MINUTE;
    if (this.#range === "all" && this.#now > starts) from = Math.max(from, Math.min(starts, to - MINUTE));
    // A figure keeps its value: the last point before the range is its beginning.
    const before = points.findLastIndex((p) => p.at <= from);
    const shown = points.slice(Math.max(0, before)).map((p) => (p.at < from ? { ...p, at: from } : p));
    for (const c of this.charts) c.show(shown, from, Math.max(to, from + MINUTE), this.#sale.currency);
  }
}

// formats returns how a chart writes its values: on the axis, and elsewhere.
function formats(name, currency) {
  if (name === "conversion") return [(n) => share.format(n), (n) => share.format(n)];
  if (name !== "revenue") return [(n) => compact.format(n), number];
  const axis = new Intl.NumberFormat(locale, { style: "currency", currency, currencyDisplay: "narrowSymbol", notation: "compact", minimumFractionDigits: 0, maximumFractionDigits: 1 });
  return [(n) => axis.format(n / 10 ** digits(currency)), (n) => money(n, currency)];
}

// Chart is a figure with a chart or its table.
class Chart {
  #plot = null;
  #data = [[]];
  #span = 0;
  #table = false;
  #rows = "";

  constructor({ name, lines }) {
    this.name = name;
    this.lines = lines;
    this.values = lines.map(() => h("strong", {}, "–"));
    this.box = h("div", { class: "plot", role: "img" });
    this.rows = h("div", { hidden: true });
    this.toggle = h("button", { type: "button", class: "plain", "aria-pressed": "false", "aria-label": `${t("curves.table")}: ${t(`curves.${name}`)}`, onclick: () => this.#switch() }, t("curves.table"));
    this.el = h("figure", { class: "chart", id: `curve-${name}` },
      h("figcaption", {}, h("span", { class: "chart-title" }, t(`curves.${name}`)), this.toggle,
        h("span", { class: "legend" }, lines.map(([column, c], i) => h("span", { class: "key", "data-line": c, "data-column": column },
          lines.length > 1 && t(`curves.line.${column}`), " ", this.values[i])))),
      this.box, this.rows);
    new ResizeObserver(() => this.#resize()).observe(this.box);
  }

  #switch() {
    this.#table = !this.#table;
    this.toggle.setAttribute("aria-pressed", String(this.#table));
    this.box.hidden = this.#table;
    this.rows.hidden = !this.#table;
    this.#rows = "";
    this.#fill();
  }

  // restart draws the chart again in the colours of the page.
  restart() {
    this.#plot?.destroy();
    this.#plot = null;
  }

  show(points, from, to, currency) {
    this.from = from;
    this.to = to;
    this.currency = currency;
    [this.axis, this.form] = formats(this.name, currency);
    this.#span = to - from;
    this.#data = [points.map((p) => p.at / 1000), ...this.lines.map(([column]) => points.map((p) => p[column]))];
    const last = points.at(-1);
    const texts = this.lines.map(([column], i) => {
      const text = this.form(last[column]);
      put(this.values[i], text);
      return this.lines.length > 1 ? `${t(`curves.line.${column}`)} ${text}` : text;
    });
    this.box.setAttribute("aria-label", t("curves.summary", { title: t(`curves.${this.name}`), values: texts.join(locale === "en" ? ", " : "，"), from: when(from, this.#span), to: when(to, this.#span) }));
    if (this.#plot) this.#plot.setData(this.#data);
    else this.#resize();
    this.#fill();
  }

  #resize() {
    const width = this.box.clientWidth;
    if (width === 0 || this.#data[0].length === 0) return;
    if (!this.#plot) this.#plot = new uPlot(this.#options(width), this.#data, this.box);
    else if (this.#plot.width !== width) this.#plot.setSize({ width, height: HEIGHT });
  }

  // #fill updates the table if it is visible, the latest point first.
  #fill() {
    const key = `${this.from} ${this.#data[0].length} ${this.#data[0].at(-2)}`;
    if (!this.#table || this.#rows === key) return;
    this.#rows = key;
    const n = this.#data[0].length;
    const step = Math.ceil(n / MAX_ROWS);
    const rows = [];
    for (let i = n - 1; i >= 0; i -= step) rows.push([(this.#span > DAY ? dated : second).format(this.#data[0][i] * 1000), ...this.lines.map((_, j) => this.form(this.#data[j + 1][i]))]);
    this.rows.replaceChildren(table(t(`curves.${this.name}`), [t("curves.time"), ...this.lines.map(([column]) => (this.lines.length > 1 ? t(`curves.line.${column}`) : t(`curves.${this.name}`)))], rows));
  }

  #options(width) {
    const font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const line = { stroke: colour("line"), width: 1 };
    const axis = { stroke: colour("soft"), font, ticks: { show: false } };
    const counts = this.name !== "conversion" && this.name !== "revenue";
    const least = counts ? 2 : 10 ** digits(this.currency); // at the top of the axis while all is 0
    return {
      width, height: HEIGHT, padding: [10, 30, 0, 0], legend: { show: false }, select: { show: false },
      cursor: { sync: { key: "curves" }, drag: { x: false, y: false }, points: { size: 6 } },
      scales: {
        x: { range: () => [this.from / 1000, this.to / 1000] },
        y: { range: (_, low, high) => [0, this.name === "conversion" ? 1 : Math.max(high * 1.1, least)] },
      },
      axes: [
        { ...axis, size: 26, gap: 8, space: this.#span > DAY ? 90 : 64, grid: { show: false }, values: (_, at) => at.map((s) => when(s * 1000, this.#span)) },
        { ...axis, size: 56, gap: 8, space: 28, grid: line, incrs: counts ? Array.from({ length: 24 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3)) : undefined, values: (_, at) => at.map((n) => this.axis(n)) },
      ],
      series: [{}, ...this.lines.map(([, c, dash]) => ({ stroke: colour(c), width: 2, dash, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) }))],
      hooks: { setCursor: [(u) => this.#readout(u)] },
    };
  }

  // #readout shows the values at the cursor.
  #readout(u) {
    let el = u.over.querySelector(".readout");
    if (!el) u.over.append(el = h("div", { class: "readout" }));
    const i = u.cursor.idx;
    el.hidden = i === null || i === undefined || u.cursor.left < 0;
    if (el.hidden) return;
    put(el, [(this.#span > DAY ? dated : second).format(u.data[0][i] * 1000), ...this.lines.map(([column], j) => `${this.lines.length > 1 ? `${t(`curves.line.${column}`)} ` : ""}${this.form(u.data[j + 1][i])}`)].join("  "));
    el.classList.toggle("end", u.cursor.left < u.over.clientWidth / 2);
  }
}
