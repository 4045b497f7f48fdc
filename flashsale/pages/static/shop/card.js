import { picture } from "./product.js";
import { h } from "./dom.js";
import { stageOf } from "./stage.js";
import { phaseOf } from "./offer.js";
import { clockwise, moment, number, t } from "./text.js";
import { now } from "./time.js";

// phaseAt returns the phase of a view now, and the text of what comes next.
export function phaseAt(view) {
  const phase = phaseOf(view, stageOf(view, null, [], now()));
  const left = Date.parse(view.starts_at) - now();
  if (left > 0 && ["upcoming", "lobby"].includes(phase)) return [phase, t("list.starts", { time: clockwise(left) })];
  if (phase === "open") return [phase, t("list.free", { n: number(view.free) })];
  return [phase, t("list.from", { time: moment(view.starts_at) })];
}

// cover returns the picture of a product, or a tile with the first letter of the title.
export function cover(title, photo) {
  return photo ? picture(photo, "(min-width: 56rem) 21rem, (min-width: 40rem) 50vw, 100vw")
    : h("span", { class: "tile", "aria-hidden": "true" }, h("span", {}, [...title][0] ?? ""));
}
