import { enter, only } from "./desk.js";
import { h, main } from "./dom.js";
import { form, fresh } from "./form.js";
import { t } from "./text.js";

await enter();
main.replaceChildren(h("h1", {}, t("office.new.title")), h("p", { class: "lead" }, t("office.new.lead")),
  only("manage", form(fresh(Date.now()), ["POST", "/api/sales", {}], t("draft.create"), (s) => location.assign(`/sales/${s.id}`))));
document.getElementById("f-title").focus();
