import { call } from "./api.js";
import { openSession } from "./identity.js";
import { h, main, put } from "./dom.js";
import { persist, why } from "./persist.js";
import { loadProduct } from "./product.js";
import { Receipt } from "./receipt.js";
import { about, t } from "./text.js";
import { Poll, keep } from "./time.js";

const note = h("p", { class: "note", role: "status" });
const list = h("div", { class: "stack" });
const none = h("p", { class: "card" }, t("orders.none"));
const cards = new Map();
const products = new Map(); // promises, by the ID of the sale

// refresh reloads the orders, more often while one of them is pending.
async function refresh() {
  const answer = await call("GET", "/api/orders");
  if (answer.status === 401) {
    const opened = await openSession((text) => put(note, text));
    if (opened.ok) return 100;
    if (!note.isConnected) main.replaceChildren(h("h1", {}, t("shop.orders.title")), note);
    put(note, why(opened));
    return 10_000;
  }
  if (!list.isConnected) main.replaceChildren(h("h1", {}, t("shop.orders.title")), note, none, list);
  if (!answer.ok) {
    const wait = Math.max(1000, answer.retry ?? 5000);
    put(note, t("again.in", { why: why(answer), time: about(wait) }));
    return wait;
  }
  put(note, "");
  const { orders } = answer.body;
  none.hidden = orders.length > 0;
  for (const r of orders) {
    if (cards.has(r.receipt)) cards.get(r.receipt).update(r);
    else {
      const card = new Receipt(r, () => poll.now(), true);
      cards.set(r.receipt, card);
      if (!products.has(r.sale)) products.set(r.sale, loadProduct(r.sale));
      products.get(r.sale).then((p) => { card.product = p; });
    }
  }
  const els = orders.map((r) => cards.get(r.receipt).el);
  if (els.some((el, i) => list.children[i] !== el)) list.replaceChildren(...els);
  if (orders.some((r) => r.state === "reserved")) return 1500;
  return orders.some((r) => r.state === "pending_pay" || cards.get(r.receipt).due()) ? 2000 : 10_000;
}

const poll = new Poll(refresh);
setInterval(() => {
  if (!document.hidden) for (const card of cards.values()) card.draw();
}, 200);
await Promise.all([keep(), openSession(() => {})]);
await poll.now();
