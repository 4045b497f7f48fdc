import { h, put } from "./dom.js";
import { table } from "./desk.js";
import { has, money, number, t } from "./text.js";

const ROWS = [
  ["stock", (b) => b.tally?.sale?.stock ?? b.counts?.stock], ["free", (b) => b.counts?.free], ["waiting", (b) => b.counts?.waiting],
  ["outstanding", (b) => b.counts?.outstanding], ["reserved", (b) => b.counts?.reserved], ["backlog", (b) => b.counts?.backlog],
  ["pending", (b) => b.tally?.pending], ["paid", (b) => b.tally?.paid], ["expired", (b) => b.tally?.expired], ["cancelled", (b) => b.tally?.cancelled],
  ["rejected", (b) => b.tally?.rejected], ["lost", (b) => b.tally?.lost], ["refund_due", (b) => b.tally?.refund_due],
  ["money_returned", (b) => b.tally?.sale?.currency && [b.tally.money_returned ?? 0, b.tally.sale.currency], (v) => money(...v)], ["buried", (b) => b.tally?.buried],
  ["admitted", (b) => b.curves?.rows.at(-1)?.[b.curves.columns.indexOf("admitted")] ?? b.admitted], ["drain", (b) => b.drain, (v) => t("board.per_second", { n: number(Math.round(v)) })],
  ["lag", (b) => b.lag_ms, (v) => t("time.seconds", { n: number(Math.round(v / 100) / 10) })], ["workers", (b) => b.workers],
];

// reasonOf returns the reason of a refusal for the merchant. A buyer sees it as why.
const reasonOf = (reason) => [`board.refused.${reason}`, `why.${reason}`].filter(has).map((key) => t(key))[0] ?? reason;

// figures updates the dashboard in el in place, so that a reader keeps the position, with the
// refusals of each layer as a table.
export function figures(el, board, trouble = "") {
  if (el.childElementCount === 0) {
    el.append(h("h2", { id: "board-title" }, t("board.title")), h("p", { class: "note", role: "status" }),
      h("progress", { max: "1", id: "sold" }),
      h("dl", { class: "figures" }, ROWS.map(([name]) => h("div", {}, h("dt", {}, t(`board.${name}`)), h("dd", { id: `b-${name}` }, "–")))),
      h("div", { id: "layers" }));
  }
  put(el.querySelector(".note"), trouble);
  el.classList.toggle("old", trouble !== "");
  if (!board) return;
  for (const [name, read, write] of ROWS) {
    const v = read(board);
    put(el.querySelector(`#b-${name}`), v === undefined ? "–" : (write ?? number)(v));
  }
  const bar = el.querySelector("#sold");
  bar.max = board.tally?.sale?.stock ?? board.counts?.stock ?? 1;
  bar.value = board.tally?.paid ?? 0;
  bar.setAttribute("aria-label", t("board.paid"));
  const rows = Object.entries(board.layers ?? {}).flatMap(([layer, reasons]) =>
    Object.entries(reasons).map(([reason, n]) => [has(`layer.${layer}`) ? t(`layer.${layer}`) : layer, reasonOf(reason), number(n)]));
  const key = JSON.stringify(rows);
  const layers = el.querySelector("#layers");
  if (layers.dataset.key === key) return;
  layers.dataset.key = key;
  layers.replaceChildren(rows.length > 0 ? table(t("board.layers"), [t("board.layer"), t("board.reason"), t("board.count")], rows)
    : h("p", { class: "hint" }, t("board.layers.none")));
}
