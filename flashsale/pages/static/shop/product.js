import { call } from "./api.js";
import { h } from "./dom.js";
import { money, one, t } from "./text.js";

// loadProduct returns what a sale shows of its product, or null.
export async function loadProduct(sale) {
  const answer = await call("GET", `/api/sales/${sale}/product`);
  return answer.ok ? answer.body : null;
}

// picture returns the element of a picture, in the size that fits.
export function picture(p, sizes) {
  const widest = p.widths.at(-1);
  return h("img", {
    src: `/images/${p.hash}-${widest}.jpg`, srcset: p.widths.map((w) => `/images/${p.hash}-${w}.jpg ${w}w`).join(", "),
    sizes, width: String(widest), height: String(p.height), alt: one(p.alt), class: "photo",
  });
}

// listPrice returns the original price, struck through, if it is above the price of the sale.
export const listPrice = (product, view) => product.list_price > view.price &&
  h("s", { class: "list-price" }, h("span", { class: "unseen" }, `${t("offer.list_price")} `), money(product.list_price, view.currency));
