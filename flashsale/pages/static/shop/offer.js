import { h, put } from "./dom.js";
import { money, moment, number, t } from "./text.js";

// An Offer shows the product, the price and the times.
export class Offer {
  #pill = h("span", { class: "pill", id: "phase" });
  #title = h("h1", { id: "title" });
  #price = h("p", { class: "price", id: "price" });
  #free = h("dd", { id: "free" });
  #meter = h("meter", { min: "0", "aria-label": "" });
  #facts = h("dl", { class: "facts" });
  #version = "";

  constructor() {
    this.el = h("section", { class: "offer", "aria-labelledby": "title" },
      h("div", { class: "what" }, h("div", { class: "tile", "aria-hidden": "true" }, h("span", {})),
        h("div", {}, this.#pill, this.#title, this.#price)),
      h("div", { class: "when-and-how" }, this.#facts, this.#meter));
  }

  update(view, stage) {
    put(this.#pill, t(`phase.${phaseOf(view, stage)}`));
    this.#pill.dataset.phase = phaseOf(view, stage);
    put(this.#title, view.title);
    put(this.el.querySelector(".tile span"), [...view.title][0] ?? "");
    put(this.#price, money(view.price, view.currency));
    put(this.#free, t("offer.free.of", { free: number(view.free), stock: number(view.stock) }));
    this.#meter.max = view.stock;
    this.#meter.value = view.free;
    this.#meter.setAttribute("aria-label", t("offer.free"));
    const version = [view.starts_at, view.ends_at, view.per_user, view.queue].join();
    if (version === this.#version) return;
    this.#version = version;
    const fact = (name, value) => h("div", {}, h("dt", {}, t(name)), value instanceof Node ? value : h("dd", {}, value));
    this.#facts.replaceChildren(
      fact("offer.starts", h("dd", {}, h("time", { datetime: view.starts_at }, moment(view.starts_at)))),
      fact("offer.ends", h("dd", {}, h("time", { datetime: view.ends_at }, moment(view.ends_at)))),
      fact("offer.free", this.#free),
      fact("offer.per_user", number(view.per_user)),
      fact("offer.queue", t(`queue.${view.queue}`)));
  }
}

// phaseOf returns the phase that matches the buyer's stage. The server's response may be a
// moment older than the clock.
export function phaseOf(view, stage) {
  if (stage === "ended") return "ended";
  if (["upcoming", "lobby"].includes(view.phase) && ["open", "line", "turn"].includes(stage)) return "open";
  return view.phase;
}
