import { address } from "./address.js";
import { call, random } from "./api.js";
import { Curves } from "./curves.js";
import { change, enter, may, only, table } from "./desk.js";
import { Slot, blame, field, h, main, put, say } from "./dom.js";
import { refused } from "./fault.js";
import { EDITABLE, form } from "./form.js";
import { actor, logged, problem } from "./log.js";
import { persist, sure, why } from "./persist.js";
import { about, money, moment, number, t } from "./text.js";
import { Poll } from "./time.js";
import { figures } from "./figures.js";
import { productCard } from "./product.js";

const id = location.pathname.split("/").at(-1);
const path = `/api/sales/${id}`;
const copyKey = random(); // the copies of one visit are one
let sale = null;
let doing = "";

const note = h("p", { class: "note", id: "note", role: "status" });
const head = h("div", { class: "name" });
const actions = new Slot({ class: "row", id: "actions" });
const edit = new Slot({ class: "stack", id: "edit" });
const live = h("section", { class: "card", id: "board", hidden: true, "aria-labelledby": "board-title" });
const curves = new Curves();
const checks = h("div", { id: "checks", "aria-live": "polite" });
const log = h("section", { class: "card", id: "log" });
const poll = new Poll(refresh);

// The actions in each state, in order; sure asks for confirmation. They need the role manage, if
// needs has no other.
const DO = {
  check: { in: ["draft"], needs: "view" },
  warm: { in: ["draft", "exposed", "paused"] },
  expose: { in: ["draft"], main: true, sure: true },
  pause: { in: ["exposed"], sure: true },
  resume: { in: ["paused"], main: true, sure: true },
  reconcile: { in: ["exposed", "paused", "ended"] },
  end: { in: ["exposed", "paused"], sure: true },
  kill: { in: ["exposed", "paused"], sure: true, danger: true },
};

async function copy() {
  if (doing) return;
  doing = "copy";
  draw();
  const answer = await change("POST", `${path}/copy`, {}, (text) => put(note, text), { "Idempotency-Key": copyKey });
  if (answer.ok) return location.assign(`/sales/${answer.body.id}`);
  doing = "";
  put(note, `${t("do.copy")}: ${refused(answer)}`);
  draw();
}

async function act(name) {
  if (doing) return;
  if (DO[name].sure && !(await sure(t(`do.${name}.sure`), t(`do.${name}`)))) return;
  doing = name;
  put(note, "");
  draw();
  const answer = await change("POST", `${path}/${name}`, {}, (text) => put(note, text));
  doing = "";
  if (!answer.ok) put(note, `${t(`do.${name}`)}: ${refused(answer)}`);
  if (answer.reason === "conflict" && ["expose", "warm"].includes(name)) {
    const checked = await change("POST", `${path}/check`); // which says why in the language of the page
    if (checked.ok) showFaults(checked.body.faults ?? []);
  } else if (!answer.ok) {
    checks.replaceChildren();
  } else if (name === "check") showFaults(answer.body.faults ?? []);
  else if (name === "reconcile") put(note, t("reconciled", { free: number(answer.body.free), before: number(answer.body.free_before), returned: number(answer.body.returned), dropped: number(answer.body.dropped), changed: number(answer.body.changed) }), true);
  else {
    if (answer.body.id) sale = answer.body;
    checks.replaceChildren();
    put(note, t(`do.${name}.done`), true);
  }
  draw();
  await Promise.all([reload(), poll.now(), showLog()]);
}

function showFaults(faults) {
  checks.replaceChildren(faults.length === 0 ? h("p", { class: "banner good" }, t("check.good"))
    : h("div", { class: "banner warn" }, h("p", {}, t("check.faults")), h("ul", {}, faults.map((f) => h("li", {}, problem(f))))));
}

async function reload() {
  const answer = await persist(() => call("GET", path), (text) => text && put(note, text)); // the result stays visible
  if (answer.status === 404) {
    main.replaceChildren(h("h1", {}, t("missing.title")), h("p", {}, t("missing.sale")), h("p", {}, h("a", { class: "button", href: "/" }, t("missing.home"))));
    return false;
  }
  if (!answer.ok) put(note, why(answer));
  else sale = answer.body;
  draw();
  return sale !== null;
}

let shown = "";

function draw() {
  if (!sale) return;
  const facts = JSON.stringify([sale.state, sale.why, sale.title, sale.stock, sale.price, sale.starts_at, sale.ends_at, sale.campaign]);
  if (facts !== shown) {
    if (shown) say(t(`state.${sale.state}`));
    shown = facts;
    head.replaceChildren(
      h("p", {}, h("span", { class: "pill", id: "state", "data-phase": sale.state }, t(`state.${sale.state}`)),
        sale.why && h("span", { class: "hint", id: "why" }, " ", t(`state.why.${sale.why}`))),
      h("h1", {}, sale.title),
      h("p", { class: "hint" }, sale.sku, " · ", money(sale.price, sale.currency), " · ", moment(sale.starts_at), " – ", moment(sale.ends_at), sale.campaign && [" · ", t("board.campaign"), " ", h("code", {}, `/c/${sale.campaign}`)]));
    document.title = `${t(`state.${sale.state}`)} · ${sale.title}`;
  }
  actions.show([sale.state, doing].join(), () => [
    ...Object.entries(DO).filter(([, d]) => d.in.includes(sale.state) && may(d.needs ?? "manage")).map(([name, d]) => h("button", {
      type: "button", id: `do-${name}`, class: d.danger ? "danger" : d.main ? "main" : "quiet", "data-main": d.main ? "" : undefined,
      "aria-disabled": doing ? "true" : undefined, onclick: () => act(name),
    }, t(doing === name ? "do.busy" : `do.${name}`))),
    may("manage") && h("button", { type: "button", id: "do-copy", class: "quiet", "aria-disabled": doing ? "true" : undefined, onclick: copy }, t(doing === "copy" ? "do.busy" : "do.copy")),
    sale.state !== "draft" && h("a", { class: "button quiet", id: "csv", href: `${path}/report.csv`, download: `${id}.csv` }, t("do.csv")),
    sale.state !== "draft" && h("a", { class: "button quiet", id: "jsonl", href: `${path}/orders.jsonl`, download: `${id}.jsonl` }, t("do.jsonl")),
  ]);
  edit.show([sale.state === "draft" ? sale.version : sale.state].join(), () => {
    if (sale.state === "draft") return [h("h2", {}, t("draft.edit")), only("manage", form(sale, ["PUT", path, { version: sale.version }], t("draft.save"), saved))];
    return sale.state === "ended" || !may("manage") ? [] : [stock(), settings()];
  });
  live.hidden = curves.el.hidden = orders.hidden = sale.state === "draft";
  networks.hidden = sale.state === "draft" || !may("service");
}

// settings returns the form of what can change while buyers see the sale. It is made when it is
// opened, with the version of then.
function settings() {
  const el = h("details", { class: "card", id: "settings", ontoggle: () => {
    if (!el.open) return;
    while (el.children.length > 1) el.lastElementChild.remove();
    el.append(h("p", { class: "hint" }, t("settings.hint")), form(sale, ["PUT", path, { version: sale.version }], t("draft.save"), (s) => { el.open = false; return saved(s); }, EDITABLE));
  } }, h("summary", {}, t("settings.title")));
  return el;
}

async function saved(s) {
  sale = s;
  put(note, t("draft.saved"), true);
  draw();
  await showLog();
}

// One click of "add" has one key, also if the request is repeated.
function stock() {
  const units = h("input", { name: "units", type: "number", min: "1", step: "1", inputmode: "numeric", value: "10" });
  let key = random();
  units.addEventListener("input", () => { key = random(); });
  return h("form", {
    class: "card inline", onsubmit: async (e) => {
      e.preventDefault();
      if (doing || !(await sure(t("stock.sure", { n: units.value }), t("stock.add")))) return;
      doing = "stock";
      draw();
      const answer = await change("POST", `${path}/stock`, { units: Number(units.value) }, (text) => put(note, text), { "Idempotency-Key": key });
      doing = "";
      if (answer.ok) {
        sale = answer.body;
        key = random();
      }
      put(note, answer.ok ? t("stock.done", { n: number(sale.stock) }) : refused(answer, () => t("stock.units")), answer.ok);
      draw();
      await Promise.all([poll.now(), showLog()]);
    },
  }, field(t("stock.units"), units, t("stock.hint")), h("button", { class: "quiet", id: "add" }, t("stock.add")));
}

async function refresh() {
  if (sale.state === "draft") return Infinity;
  const answer = await call("GET", `${path}/board${curves.query}`);
  if (answer.ok) {
    const b = answer.body;
    if (b.tally?.sale && b.tally.sale.version >= sale.version) sale = { ...sale, ...b.tally.sale };
    figures(live, b);
    draw();
    curves.add(b);
    return b.view?.poll_after_ms ? Math.min(2000, Math.max(500, b.view.poll_after_ms)) : 1000;
  }
  const wait = Math.max(1000, answer.retry ?? 5000);
  figures(live, null, t("again.in", { why: why(answer), time: about(wait) }));
  return wait;
}

async function showLog() {
  const answer = await call("GET", `${path}/log`);
  if (!answer.ok) return;
  log.replaceChildren(table(t("log.title"), [t("log.at"), t("log.actor"), t("log.what")],
    answer.body.log.map((l) => [moment(l.at), actor(l.actor), logged(l.what, sale.currency)])));
}

// The orders are loaded when they are opened, a hundred at a time.
const rows = h("div", {});
const reason = h("input", { name: "reason", maxlength: "40", autocomplete: "off" });
const more = h("button", { type: "button", class: "quiet", id: "more-orders", hidden: true, onclick: () => showOrders(more.dataset.after) }, t("office.more"));
const orders = h("details", { class: "card", id: "orders", ontoggle: () => orders.open && showOrders("") }, h("summary", {}, t("orders.title")), field(t("orders.reason"), reason, t("orders.reason.hint")), rows, more);

// endOrder cancels a pending order, or refunds a paid one: action is "cancel" or "refund".
async function endOrder(reservation, action) {
  if (doing) return;
  blame(reason, "");
  const text = reason.value.trim();
  if (text === "") {
    blame(reason, t("draft.empty"));
    return reason.focus();
  }
  if (!(await sure(t(`orders.${action}.sure`), t(`orders.${action}`)))) return;
  const answer = await change("POST", `${path}/orders/${reservation}/${action}`, { reason: text }, (said) => put(note, said));
  put(note, answer.ok ? t(`orders.${action}.done`) : refused(answer, () => t("orders.reason")), answer.ok);
  await Promise.all([showOrders(""), poll.now(), showLog()]);
}

const ENDS = { pending_pay: "cancel", paid: "refund" };

function endButton(o) {
  const action = ENDS[o.state];
  if (!action || !may("service")) return "";
  return h("button", { type: "button", class: "plain", [`data-${action}`]: o.reservation, onclick: () => endOrder(o.reservation, action) }, t(`orders.${action}`));
}

// stateOf returns the state of an order and of its money.
function stateOf(o) {
  if (o.refunds === 0) return t(`order.${o.state}`);
  return `${t(`order.${o.state}`)}, ${t(o.refunded === o.refunds ? "order.refunded" : "order.refund_due")}`;
}

async function showOrders(after) {
  const answer = await persist(() => call("GET", `${path}/orders?after=${encodeURIComponent(after)}`), (text) => text && put(note, text));
  if (!answer.ok) return put(note, why(answer));
  const part = table(t("orders.title"), ["at", "state", "quantity", "name", "phone", "address", "reservation", "action"].map((c) => t(`orders.${c}`)),
    answer.body.orders.map((o) => [moment(o.at), stateOf(o), number(o.quantity), o.contact?.name ?? "", o.contact?.phone ?? "", address(o.contact), o.reservation, endButton(o)]));
  if (after === "") rows.replaceChildren(part);
  else rows.append(part);
  more.hidden = answer.body.orders.length < 100;
  more.dataset.after = answer.body.orders.at(-1)?.reservation ?? "";
}

// Shared networks are loaded when they are opened.
const shared = h("div", {});
const networks = h("details", { class: "card", id: "networks", ontoggle: () => networks.open && showNetworks() },
  h("summary", {}, t("networks.title")), h("p", { class: "hint" }, t("networks.hint")), shared);

async function showNetworks() {
  const answer = await persist(() => call("GET", `${path}/networks`), (text) => text && put(note, text));
  if (!answer.ok) return put(note, why(answer));
  const found = answer.body.networks;
  shared.replaceChildren(found.length === 0 ? h("p", {}, t("networks.none"))
    : table(t("networks.title"), ["network", "users", "orders"].map((c) => t(`networks.${c}`)),
      found.map((n) => [n.network, number(n.users), number(n.orders)])));
}

await enter();
reason.closest(".field").hidden = !may("service"); // it is for a cancellation or a refund
if (await reload()) {
  main.replaceChildren(head, actions.el, note, checks, live, curves.el, edit.el, await productCard(sale), orders, networks, log);
  await Promise.all([poll.now(), showLog()]);
}
