import { call } from "./api.js";
import { change, only, upload } from "./desk.js";
import { field, h, put } from "./dom.js";
import { cents, decimal } from "./form.js";
import { why } from "./persist.js";
import { t } from "./text.js";

const TEXTS = ["title_zh", "title_en", "description_zh", "description_en"];

// productCard returns the form of what a sale shows of its product, and its pictures.
export async function productCard(sale) {
  const path = `/api/sales/${sale.id}`;
  const answer = await call("GET", `${path}/product`);
  if (!answer.ok) return h("div", {});
  let product = answer.body;
  const note = h("p", { class: "note", role: "status" });
  const inputs = Object.fromEntries(TEXTS.map((name) => [name, h(name.startsWith("title") ? "input" : "textarea", { name, maxlength: name.startsWith("title") ? "120" : "2000" })]));
  for (const name of TEXTS) {
    const [kind, lang] = name.split("_");
    inputs[name].value = product[kind]?.[lang] ?? "";
  }
  const price = h("input", { name: "list_price", inputmode: "decimal", autocomplete: "off" });
  price.value = product.list_price ? decimal(product.list_price, sale.currency) : "";
  const pictures = h("div", { class: "row", id: "pictures" });
  const alt = h("input", { name: "alt", maxlength: "120" });
  const file = h("input", { name: "file", type: "file", accept: "image/jpeg,image/png,image/webp" });

  function showPictures() {
    pictures.replaceChildren(...(product.pictures ?? []).map((p) => h("span", { class: "pill" }, p.alt?.zh || p.alt?.en || p.hash.slice(0, 8), " ",
      h("button", { type: "button", class: "plain", onclick: async () => take(await change("POST", `${path}/pictures/${p.hash}/remove`)) }, t("product.remove")))));
  }
  function take(done) {
    put(note, done.ok ? t("product.saved") : done.detail || why(done));
    if (done.ok) product = done.body;
    showPictures();
    return done.ok;
  }
  showPictures();
  return only("manage", h("section", { class: "card", id: "product" }, h("h2", {}, t("product.title")), note,
    h("form", {
      class: "stack", onsubmit: async (e) => {
        e.preventDefault();
        const amount = price.value.trim() === "" ? 0 : cents(price.value, sale.currency);
        if (Number.isNaN(amount)) return put(note, t("draft.unread"));
        take(await change("PUT", `${path}/product`, { ...Object.fromEntries(TEXTS.map((n) => [n, inputs[n].value])), list_price: amount }));
      },
    }, h("div", { class: "fields pairs" }, TEXTS.map((n) => field(t(`product.${n}`), inputs[n])), field(t("product.list_price"), price)),
    h("div", { class: "row" }, h("button", { class: "quiet", id: "product-save" }, t("product.save")))),
    pictures,
    h("form", {
      class: "stack", onsubmit: async (e) => {
        e.preventDefault();
        if (file.files.length === 0) return;
        const query = new URLSearchParams({ alt_zh: alt.value, alt_en: alt.value });
        if (take(await upload(`${path}/pictures?${query}`, file.files[0]))) file.value = "";
      },
    }, h("div", { class: "fields pairs" }, field(t("product.picture"), file), field(t("product.alt"), alt)),
    h("div", { class: "row" }, h("button", { class: "quiet", id: "product-upload" }, t("product.upload"))))));
}
