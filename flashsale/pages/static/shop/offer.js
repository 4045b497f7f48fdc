import { h, put } from "./dom.js";
import { listPrice, picture } from "./product.js";
import { moment, money, number, one, percent, t } from "./text.js";

// An Offer shows the product, the price and the times.
export class Offer {
  #pill = h("span", { class: "pill", id: "phase" });
  #title = h("h1", { id: "title" });
  #price = h("p", { class: "price", id: "price" });
  #free = h("dd", { id: "free" });
  #share = h("p", { id: "share" });
  #bar = h("progress", { max: "1", "aria-label": t("offer.share") });
  #sold = h("div", { class: "sold" }, this.#bar, this.#share);
  #facts = h("dl", { class: "facts" });
  #version = "";
  #product = null;
  #campaign = h("a", { class: "hint", id: "campaign", hidden: true }, t("offer.campaign"));
  #variants = h("nav", { class: "variants", id: "variants", "aria-label": t("offer.variants"), hidden: true });
  #about = h("p", { class: "about", id: "about", hidden: true });

  constructor() {
    this.el = h("section", { class: "offer", "aria-labelledby": "title" },
      h("div", { class: "what" }, h("div", { class: "tile", "aria-hidden": "true" }, h("span", {})),
        h("div", { class: "name" }, this.#campaign, this.#pill, this.#title, this.#price, this.#variants, this.#sold)),
      h("div", { class: "when-and-how" }, this.#about, this.#facts));
  }

  get title() { return this.#title.textContent; }

  // show shows the product of the sale in view.
  show(product, view) {
    this.#product = product;
    if (!product) return;
    if (product.pictures?.length > 0) this.el.querySelector(".tile").replaceWith(picture(product.pictures[0], "(min-width: 56rem) 40rem, 100vw"));
    this.#variants.replaceChildren(...(product.variants ?? []).map((v) => variant(v, view)));
    this.#variants.hidden = this.#variants.childElementCount === 0;
    put(this.#about, one(product.description));
    this.#about.hidden = this.#about.textContent === "";
  }

  update(view, stage) {
    put(this.#pill, t(`phase.${phaseOf(view, stage)}`));
    this.#pill.dataset.phase = phaseOf(view, stage);
    const title = one(this.#product?.title) || view.title;
    put(this.#title, title);
    const tile = this.el.querySelector(".tile span");
    if (tile) put(tile, [...title][0] ?? "");
    const before = this.#product ? listPrice(this.#product, view) : null;
    const price = money(view.price, view.currency);
    if (this.#price.textContent !== price + (before ? ` ${before.textContent}` : "")) this.#price.replaceChildren(price, ...(before ? [" ", before] : []));
    this.#campaign.hidden = !view.campaign;
    if (view.campaign) this.#campaign.setAttribute("href", `/c/${view.campaign}`);
    put(this.#free, t("offer.free.of", { free: number(view.free), stock: number(view.stock) }));
    const taken = (view.stock - view.free) / Math.max(1, view.stock);
    this.#sold.hidden = ["upcoming", "lobby"].includes(phaseOf(view, stage));
    this.#bar.value = taken;
    put(this.#share, t("offer.taken", { share: percent(Math.floor(100 * taken) / 100) }));
    const version = [view.starts_at, view.ends_at, view.per_user, view.per_member, view.queue].join();
    if (version === this.#version) return;
    this.#version = version;
    const fact = (name, value) => h("div", {}, h("dt", {}, t(name)), value instanceof Node ? value : h("dd", {}, value));
    this.#facts.replaceChildren(
      fact("offer.starts", h("dd", {}, h("time", { datetime: view.starts_at }, moment(view.starts_at)))),
      fact("offer.ends", h("dd", {}, h("time", { datetime: view.ends_at }, moment(view.ends_at)))),
      fact("offer.free", this.#free),
      fact("offer.per_user", view.per_member > view.per_user ? t("offer.per_user.guest", { n: number(view.per_user), members: number(view.per_member) }) : number(view.per_user)),
      fact("offer.queue", t(`queue.${view.queue}`)));
  }
}

// variant returns a variant of the product. It is a link if another sale has it.
function variant(v, view) {
  const here = v.sale === view.id;
  const over = ["sold_out", "ended"].includes(v.phase) && !here;
  const note = !v.sale ? t("offer.variants.none") : over ? t(`phase.${v.phase}`) : money(v.price, view.currency);
  const text = [h("span", {}, one(v.name) || v.sku), h("span", { class: "hint" }, note)];
  if (here) return h("span", { class: "variant", "aria-current": "true" }, text);
  return v.sale ? h("a", { class: "variant", href: `/sales/${v.sale}` }, text) : h("span", { class: "variant none" }, text);
}

// phaseOf returns the phase that matches the buyer's stage. The server's response may be a
// moment older than the clock.
export function phaseOf(view, stage) {
  if (stage === "ended") return "ended";
  if (["upcoming", "lobby"].includes(view.phase) && ["open", "line", "turn"].includes(stage)) return "open";
  return view.phase;
}
