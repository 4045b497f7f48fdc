import { call } from "./api.js";
import { enter, may } from "./desk.js";
import { h, main, put } from "./dom.js";
import { persist, why } from "./persist.js";
import { money, moment, number, t } from "./text.js";

await enter();
const note = h("p", { class: "note", role: "status" });
const list = h("ul", { class: "sales" });
const more = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => load(more.dataset.after) }, t("office.more"));
const none = h("p", { class: "card", hidden: true }, t("office.none"));
main.replaceChildren(
  h("div", { class: "row apart" }, h("h1", {}, t("office.home.title")), may("manage") ? h("a", { class: "button", id: "new", href: "/sales/new" }, t("office.new")) : ""),
  note, none, list, h("div", { class: "row" }, more));

async function load(after) {
  const answer = await persist(() => call("GET", `/api/sales?after=${encodeURIComponent(after)}`), (text) => put(note, text));
  if (!answer.ok) return put(note, why(answer));
  const { sales } = answer.body;
  none.hidden = sales.length > 0 || after !== "";
  list.append(...sales.map((s) => h("li", {}, h("a", { class: "card link", href: `/sales/${s.id}` },
    h("span", { class: "pill", "data-phase": s.state }, t(`state.${s.state}`)),
    h("h2", {}, s.title),
    h("span", { class: "when" }, moment(s.starts_at)),
    h("span", {}, money(s.price, s.currency), " · ", t("office.sold", { sold: number(s.sold), stock: number(s.stock) }))))));
  more.hidden = sales.length < 100;
  more.dataset.after = sales.at(-1)?.id ?? "";
}

await load("");
