import { call } from "./api.js";
import { h, main, put } from "./dom.js";
import { why } from "./persist.js";
import { cover, phaseAt } from "./card.js";
import { listPrice } from "./product.js";
import { about, money, one, t } from "./text.js";
import { Poll, keep } from "./time.js";

const list = h("ul", { class: "sales" });
const note = h("p", { class: "note", role: "status" });
let live = [];
let shown = "";

async function refresh() {
  const answer = await call("GET", "/api/sales");
  if (!answer.ok) {
    const wait = Math.max(1000, answer.retry ?? 5000);
    put(note, t("again.in", { why: why(answer), time: about(wait) }));
    if (!note.isConnected) main.replaceChildren(h("h1", {}, t("shop.list.title")), note);
    return wait;
  }
  put(note, "");
  const { sales } = answer.body;
  const version = JSON.stringify(sales.map((s) => [s.id, s.title, s.price, s.starts_at, s.ends_at, s.phase, s.product]));
  if (version !== shown) {
    shown = version;
    live = [];
    list.replaceChildren(...sales.map(item));
    main.replaceChildren(h("h1", {}, t("shop.list.title")), h("p", { class: "lead" }, t("shop.list.lead")), note,
      sales.length > 0 ? list : h("p", { class: "card" }, t("shop.list.none")));
  }
  for (const s of sales) views.set(s.id, s);
  tick();
  return sales.length > 0 ? Math.max(2000, Math.min(...sales.map((s) => s.poll_after_ms || 5000))) : 5000;
}

const views = new Map();

function item(s) {
  views.set(s.id, s);
  const pill = h("span", { class: "pill" });
  const when = h("span", { class: "when" });
  live.push(() => {
    const [phase, text] = phaseAt(views.get(s.id));
    put(pill, t(`phase.${phase}`));
    pill.dataset.phase = phase;
    put(when, text);
  });
  const title = one(s.product?.title) || s.title;
  const before = s.product && listPrice(s.product, s);
  return h("li", {}, h("a", { class: "card link", href: `/sales/${s.id}` },
    cover(title, s.product?.picture),
    pill, h("h2", {}, title), h("span", { class: "price" }, money(s.price, s.currency), before && [" ", before]), when));
}

function tick() {
  for (const fn of live) fn();
}

setInterval(() => document.hidden || tick(), 250);
await keep();
await new Poll(refresh).now();
