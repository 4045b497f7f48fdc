import { address } from "./address.js";
import { call, local, random, session } from "./api.js";
import { Contact } from "./contact.js";
import { Slot, h, put } from "./dom.js";
import { persist, sure, why } from "./persist.js";
import { picture } from "./product.js";
import { clockwise, moment, money, number, one, t } from "./text.js";
import { now } from "./time.js";

// held lists the states in which a unit is kept for the buyer.
export const held = (r) => r.state === "reserved" || r.state === "pending_pay" || r.state === "paid";

const MOCK = "mock" in document.documentElement.dataset; // the shop has the mock provider
const LONGEST = 600_000; // the longest delay of the mock provider

// The receipts that the buyer went to pay at the provider's page, in any tab, and until when the
// payment may arrive.
const AWAY = "fs.away";
const LATEST = 120_000; // after the deadline
const ASK = 5000; // between questions to the provider
const isAway = (r) => (local.get(AWAY)?.[r.receipt] ?? 0) > now();

function goAway(r) {
  const all = Object.entries(local.get(AWAY) ?? {}).filter(([, until]) => until > now());
  local.set(AWAY, Object.fromEntries([...all, [r.receipt, Date.parse(r.pay_by) + LATEST]]));
}

// A Receipt shows a reservation and its actions. changed is called with the receipt after each
// change.
export class Receipt {
  #r;
  #slot;
  #changed;
  #named; // shows the product, for a list of orders of several sales
  #product = null;
  #doing = "";
  #note = "";
  #leave = false; // the buyer lets it expire
  #who; // the contact in the server's response
  #contact; // its form
  #late = false; // a payment that will be too late is in progress
  #asked = 0; // when this page last reported that the buyer is back from the provider

  constructor(r, changed, named = false) {
    this.#slot = new Slot({ class: "card receipt", "data-receipt": r.receipt });
    this.#changed = changed;
    this.#named = named;
    this.el = this.#slot.el;
    this.update(r);
  }

  get receipt() { return this.#r; }

  set product(p) {
    this.#product = p;
    this.draw();
  }

  update(r) {
    this.#r = r;
    this.#who = r.contact ?? this.#who; // a status has no contact
    this.el.dataset.state = r.state;
    this.draw();
    if (r.state === "pending_pay" && isAway(r) && now() > this.#asked + ASK) {
      this.#asked = now();
      void call("POST", `/api/orders/${encodeURIComponent(r.receipt)}/returned`); // its notification may be lost
    }
  }

  // due reports whether to reload the order.
  due() {
    const late = Date.parse(this.#r.pay_by) + 300 < now();
    if (isAway(this.#r) && (this.#r.state === "pending_pay" || (this.#r.state === "expired" && this.#r.refunds === 0))) return true;
    if (this.#r.refunds > (this.#r.refunded ?? this.#r.refunds)) return true; // until the money is returned
    return this.#r.state === "reserved" || ((this.#r.state === "pending_pay" || (this.#late && this.#r.refunds === 0)) && late);
  }

  draw() {
    const r = this.#r;
    const key = [r.state, r.refunds, r.refunded, this.#doing, isAway(r), this.#leave, this.#late, Boolean(this.#product), this.#who?.name, this.#who?.phone, address(this.#who)].join();
    this.#slot.show(key, (live) => this.#build(r, live));
  }

  #build(r, live) {
    const note = h("p", { class: "note", "aria-live": "polite" });
    live(() => put(note, this.#note));
    const left = h("span", { class: "clock", role: "timer" });
    const away = r.state === "pending_pay" && isAway(r) && this.#who;
    const title = h("h2", { tabindex: "-1" }, t(away ? "receipt.away" : `receipt.${r.state}`));
    const paid = [r.quantity > 1 && [t("receipt.quantity", { n: number(r.quantity) }), " · "], money(r.price, r.currency), " · ", moment(r.at)];
    const photo = this.#product?.pictures?.[0];
    const facts = h("div", { class: "bought" },
      this.#named && photo && h("a", { class: "thumb", href: `/sales/${r.sale}`, tabindex: "-1", "aria-hidden": "true" }, picture(photo, "4.5rem")),
      h("div", {}, this.#named && h("p", {}, h("a", { href: `/sales/${r.sale}` }, one(this.#product?.title) || r.title)), h("p", { class: "hint" }, paid),
        r.state !== "reserved" && r.order && h("p", { class: "hint", "data-order": "" }, t("receipt.order", { id: r.order }))));
    const text = h("p", {}, t(away ? "receipt.away.text" : `receipt.${r.state}.text`, { time: moment(r.pay_by) }));
    const refund = r.refunds > 0 && h("p", { class: "banner warn", "data-refund": "" },
      t(r.refunded === r.refunds ? "receipt.refunded" : "receipt.refund"));
    const who = this.#who && h("p", { class: "hint", "data-who": "" }, t("receipt.for", this.#who), address(this.#who) && [h("br"), t("receipt.ship", { address: address(this.#who) })]);
    const all = r.state === "paid" && !this.#named && h("p", {}, h("a", { class: "button quiet", href: "/orders" }, t("nav.orders")));
    if (r.state !== "pending_pay") return [title, text, facts, r.state === "paid" && who, refund, all, note];
    this.#contact ??= new Contact(r.receipt, this.#who, r.address);
    live(() => {
      put(left, clockwise(Date.parse(this.#r.pay_by) - now()));
      left.classList.toggle("soon", Date.parse(this.#r.pay_by) - now() < 60_000);
    });
    const busy = this.#doing !== "";
    const button = (name, on, props = {}, label = name) => h("button", {
      type: "button", id: `${name}-${r.receipt.slice(-8)}`, "data-do": name, class: "quiet", "aria-disabled": busy ? "true" : undefined, ...props,
      onclick: () => { if (!this.#doing) on(); },
    }, t(this.#doing === name ? `receipt.${name}.busy` : `receipt.${label}`));
    if (this.#leave) {
      return [title, left, h("p", {}, t("receipt.left.text", { time: moment(r.pay_by) })), facts, refund,
        h("div", { class: "row" }, button("after", () => { this.#leave = false; this.draw(); })), note];
    }
    if (away) {
      return [title, left, text, facts, who, refund,
        h("div", { class: "row dock" }, button("pay", () => this.#pay(), { class: "main", "data-main": "" }, "again"), button("cancel", () => this.#cancel())), note];
    }
    const late = button("late", () => this.#payLate());
    live(() => {
      const far = Date.parse(this.#r.pay_by) - now() + 2000 > LONGEST;
      late.disabled = far || this.#late;
      late.title = far ? t("receipt.late.far") : "";
    });
    return [
      title, left, text, facts, refund,
      this.#late && h("p", { class: "banner warn" }, t("receipt.late.text")),
      h("form", { class: "stack", novalidate: true, onsubmit: (e) => { e.preventDefault(); if (!this.#doing) this.#pay(); } }, this.#contact.el,
        h("div", { class: "row dock" }, button("pay", () => {}, { type: "submit", class: "main", "data-main": "" }), button("cancel", () => this.#cancel()))),
      note,
      MOCK && h("details", {}, h("summary", {}, t("receipt.mock")), h("p", { class: "hint" }, t("receipt.mock.text")),
        h("div", { class: "row" }, late, button("leave", () => { this.#leave = true; this.draw(); }))),
    ];
  }

  async #act(name, ask) {
    this.#doing = name;
    this.#note = "";
    this.draw();
    const answer = await persist(ask, (text) => { this.#note = text; this.draw(); });
    this.#doing = "";
    if (!answer.ok) this.#note = why(answer);
    if (answer.body.state && answer.body.receipt) this.#r = { ...this.#r, ...answer.body };
    this.el.dataset.state = this.#r.state;
    this.draw();
    await this.#changed(this.#r);
    return answer;
  }

  // A payment keeps its ID when it is sent again, so the provider charges it once. The
  // contact is sent first.
  async #pay() {
    const who = this.#contact.read();
    if (!who) return;
    const order = `/api/orders/${encodeURIComponent(this.#r.receipt)}`;
    const key = `fs.pay.${this.#r.receipt}`;
    const payment = session.get(key) ?? random();
    session.set(key, payment);
    const answer = await this.#act("pay", async () => {
      if (Object.entries(who).some(([name, value]) => value !== (this.#who?.[name] ?? ""))) {
        const said = await call("PUT", `${order}/contact`, who);
        if (!said.ok) return said;
        this.#who = said.body.contact;
      }
      return call("POST", `${order}/pay`, MOCK ? { payment, after_ms: 0 } : {});
    });
    if (answer.ok && answer.body.checkout) {
      goAway(this.#r);
      location.assign(answer.body.checkout); // the page of the payment provider
    }
    if (answer.status === 400) this.#contact.blame(answer.body.field);
  }

  async #payLate() {
    const after = Math.min(LONGEST, Math.max(0, Math.ceil(Date.parse(this.#r.pay_by) - now()) + 1500));
    const payment = random();
    const answer = await this.#act("late", () => call("POST", `/api/orders/${encodeURIComponent(this.#r.receipt)}/pay`, { payment, after_ms: after }));
    this.#late = answer.ok;
    this.draw();
  }

  async #cancel() {
    if (!(await sure(t("receipt.cancel.sure"), t("receipt.cancel.yes"), t("receipt.cancel.keep")))) return;
    await this.#act("cancel", () => call("POST", `/api/orders/${encodeURIComponent(this.#r.receipt)}/cancel`));
  }
}
