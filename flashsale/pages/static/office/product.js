import { call } from "./api.js";
import { change, may, only, table, upload } from "./desk.js";
import { blame, field, h, put } from "./dom.js";
import { cents, decimal } from "./form.js";
import { faultOf, faultsOf, refused } from "./fault.js";
import { sure } from "./persist.js";
import { has, money, one, t } from "./text.js";

// label returns the name of a field of the card.
const label = (name) => ["product", "variant"].map((form) => `${form}.${name}`).filter(has).map((key) => t(key))[0] ?? name;

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
  const pictures = h("div", { class: "pictures", id: "pictures" });
  const alt = h("input", { name: "alt", maxlength: "120" });
  // A browser labels an input of a file in its own language, so a label in that of the page covers it.
  const chosen = h("span", { class: "hint", "aria-live": "polite" });
  const file = h("input", { name: "file", type: "file", class: "unseen", accept: "image/jpeg,image/png,image/webp", onchange: () => put(chosen, file.files[0]?.name ?? "") });
  const choose = field(t("product.picture"), file);
  file.after(h("label", { for: file.id, class: "button quiet" }, t("product.choose")), chosen);

  function showPictures() {
    pictures.replaceChildren(...(product.pictures ?? []).map((p) => h("figure", {},
      h("img", { class: "photo", src: `${path}/pictures/${p.hash}`, alt: "" }), h("figcaption", { class: "hint" }, one(p.alt) || p.hash.slice(0, 8), " "),
      may("manage") && h("button", { type: "button", class: "plain", onclick: async () => take(await change("POST", `${path}/pictures/${p.hash}/remove`)) }, t("product.remove")))));
  }
  function take(done) {
    put(note, done.ok ? t("product.saved") : refused(done, label), done.ok);
    if (done.ok) product = done.body;
    showPictures();
    showVariants();
    return done.ok;
  }

  // The form adds a variant, or replaces the one with its SKU.
  const variants = h("div", { id: "variants" });
  const name = Object.fromEntries(["sku", "name_zh", "name_en", "price"].map((n) => [n, h("input", { name: n, id: `variant-${n}`, maxlength: n === "sku" ? "64" : "120", autocomplete: "off", ...(n === "price" ? { inputmode: "decimal" } : {}) })]));
  function fill(v) {
    name.sku.value = v?.sku ?? "";
    name.name_zh.value = v?.name?.zh ?? "";
    name.name_en.value = v?.name?.en ?? "";
    name.price.value = v ? decimal(v.price, sale.currency) : "";
  }
  function showVariants() {
    const act = (action, v, onclick) => h("button", { type: "button", class: "plain", [`data-variant-${action}`]: v.sku, onclick }, t(`variant.${action}`));
    const rows = (product.variants ?? []).map((v) => [v.sku, v.name?.zh ?? "", v.name?.en ?? "", money(v.price, sale.currency), may("manage") ? h("span", { class: "row" },
      act("edit", v, () => { fill(v); name.name_zh.focus(); }),
      act("remove", v, async () => {
        if (await sure(t("variant.remove.sure", { name: one(v.name) || v.sku }), t("variant.remove"))) take(await change("POST", `${path}/variants/remove`, { sku: v.sku }));
      })) : ""]);
    variants.replaceChildren(rows.length > 0 ? table(t("variant.title"), [t("variant.sku"), t("variant.name_zh"), t("variant.name_en"), t("variant.price"), ""], rows) : h("h3", {}, t("variant.title")));
  }
  const writes = h("form", {
    class: "stack", onsubmit: async (e) => {
      e.preventDefault();
      const amount = cents(name.price.value, sale.currency);
      for (const input of Object.values(name)) blame(input, "");
      if (Number.isNaN(amount)) {
        blame(name.price, t("draft.unread"));
        return name.price.focus();
      }
      const answer = await change("PUT", `${path}/variants`, { sku: name.sku.value.trim(), name_zh: name.name_zh.value.trim(), name_en: name.name_en.value.trim(), price: amount });
      for (const f of faultsOf(answer)) if (name[f.field]) blame(name[f.field], faultOf(f, f.field === "price" ? (v) => decimal(v, sale.currency) : undefined));
      if (take(answer)) fill(null);
    },
  }, h("p", { class: "hint" }, t("variant.hint")),
  h("div", { class: "fields pairs" }, Object.entries(name).map(([n, input]) => field(t(`variant.${n}`), input))),
  h("div", { class: "row" }, h("button", { class: "quiet", id: "variant-save" }, t("variant.save"))));
  showPictures();
  showVariants();
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
        if (take(await upload(`${path}/pictures?${query}`, file.files[0]))) {
          file.value = "";
          put(chosen, "");
        }
      },
    }, h("div", { class: "fields pairs" }, choose, field(t("product.alt"), alt)),
    h("div", { class: "row" }, h("button", { class: "quiet", id: "product-upload" }, t("product.upload")))),
    variants, may("manage") && writes));
}
