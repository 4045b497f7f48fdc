import { change, enter, table } from "./desk.js";
import { field, h, main, put, say } from "./dom.js";
import { why } from "./persist.js";
import { about, number, t } from "./text.js";

const DESIGNS = ["naive", "fenced", "segmented", "atomic"];
// What is asked if nothing else is said, and at least and at most, as in API.md.
const INPUTS = { buyers: [200, 1, 500], stock: [50, 1, 500], pause_ms: [100, 0, 2000] };

await enter();
const inputs = Object.fromEntries(Object.entries(INPUTS).map(([name, [value, min, max]]) =>
  [name, h("input", { name, type: "number", min: String(min), max: String(max), required: true, step: "1", inputmode: "numeric", value: String(value) })]));
const note = h("p", { class: "note", role: "status" });
const results = h("div", { id: "results" });
const runs = [];
const button = h("button", { class: "main", id: "run" }, t("lab.run"));

main.replaceChildren(h("h1", {}, t("office.lab.title")), h("p", { class: "lead" }, t("lab.lead")),
  h("dl", { class: "card designs" }, DESIGNS.map((d) => h("div", {}, h("dt", {}, t(`lab.${d}`)), h("dd", {}, t(`lab.${d}.text`))))),
  h("form", { class: "card", onsubmit: run },
    h("div", { class: "fields" }, Object.entries(inputs).map(([name, input]) => field(t(`lab.${name}`), input, t(`lab.${name}.hint`)))),
    h("div", { class: "row" }, button), note),
  results);

// run makes one run of each design, one after the other: together they would share the
// machine, and no figure would mean anything.
async function run(e) {
  e.preventDefault();
  if (button.getAttribute("aria-disabled")) return;
  button.setAttribute("aria-disabled", "true");
  const ask = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, Number(input.value)]));
  for (const design of DESIGNS) {
    put(note, t("lab.running", { design: t(`lab.${design}`) }));
    const answer = await change("POST", "/api/lab", { design, ...ask }, (text) => text && put(note, text));
    if (!answer.ok) {
      put(note, answer.detail || why(answer));
      button.removeAttribute("aria-disabled");
      return;
    }
    runs.unshift(answer.body);
    show();
  }
  button.removeAttribute("aria-disabled");
  put(note, "");
  say(t("lab.done"));
}

function show() {
  results.replaceChildren(h("section", { class: "card" }, table(t("lab.results"),
    ["design", "buyers", "stock", "sold", "oversold", "undersold", "took", "per_second"].map((k) => t(`lab.col.${k}`)),
    runs.slice(0, 40).map((r) => [t(`lab.${r.design}`), number(r.buyers), number(r.stock), number(r.sold),
      r.oversold > 0 ? h("strong", { class: "bad" }, number(r.oversold)) : number(r.oversold), number(r.undersold), about(r.took_ms), number(Math.round(r.per_second))]))));
}
