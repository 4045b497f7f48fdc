import { country } from "./address.js";
import { local } from "./api.js";
import { blame, field, h } from "./dom.js";
import { has, locale, t } from "./text.js";

const KEY = "fs.contact"; // the last contact in this browser

// The countries and regions of ISO 3166-1.
const COUNTRIES = (
  "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS " +
  "BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE " +
  "EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM " +
  "HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC " +
  "LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA " +
  "NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW " +
  "SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO " +
  "TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW"
).split(" ");

const zh = locale === "zh-CN";
const ADDRESS = zh ? ["country", "city", "street", "street2", "postal"] : ["country", "street", "street2", "city", "postal"];
const HALF = ["name", "phone", ...ADDRESS.slice(-2)]; // two in a row
const NEEDED = ["country", "city", "street"];

// own returns the country or region of the browser, if it has one.
function own() {
  if (zh) return "CN";
  try {
    return new Intl.Locale(navigator.language).region ?? "";
  } catch {
    return "";
  }
}

// countries returns the choice of a country or region, by name.
function countries(props, chosen) {
  const named = COUNTRIES.map((code) => [code, country(code)]).sort(([, a], [, b]) => a.localeCompare(b, locale));
  const el = h("select", props, h("option", { value: "" }, t("receipt.country.none")), named.map(([code, name]) => h("option", { value: code }, name)));
  el.value = COUNTRIES.includes(chosen) ? chosen : "";
  return el;
}

// A Contact is the form for the recipient of an order. rule is whether the sale asks for an
// address: optional, required or nothing.
export class Contact {
  #inputs;
  #rule;

  constructor(receipt, said, rule) {
    const id = receipt.slice(-8);
    const last = said ?? local.get(KEY) ?? {};
    this.#rule = rule;
    const props = (name, more) => ({ name, id: `${name}-${id}`, oninput: (e) => blame(e.target, ""), ...more });
    const input = (name, more) => h("input", { ...props(name, more), value: String(last[name] ?? "") });
    const must = rule === "required";
    this.#inputs = {
      name: input("name", { autocomplete: "name", maxlength: "60", required: true }),
      phone: input("phone", { type: "tel", autocomplete: "tel", maxlength: "40", required: true }),
    };
    const parts = [this.#fields(["name", "phone"])];
    if (rule) {
      const all = {
        country: countries(props("country", { autocomplete: "country", required: must }), last.country ?? (must ? own() : "")),
        city: input("city", { autocomplete: "address-level2", maxlength: "80", required: must }),
        street: input("street", { autocomplete: "address-line1", maxlength: "120", required: must }),
        street2: input("street2", { autocomplete: "address-line2", maxlength: "120" }),
        postal: input("postal", { autocomplete: "postal-code", maxlength: "12" }),
      };
      for (const name of ADDRESS) this.#inputs[name] = all[name];
      parts.push(h("fieldset", { class: "address" }, h("legend", {}, t(`receipt.address.${rule}`)), this.#fields(ADDRESS)));
    }
    this.el = h("div", { class: "stack contact" }, parts);
  }

  #fields(names) {
    return h("div", { class: "fields" }, names.map((name) => {
      const el = field(t(`receipt.${name}`), this.#inputs[name], has(`receipt.${name}.hint`) ? t(`receipt.${name}.hint`) : "");
      el.classList.toggle("half", HALF.includes(name));
      return el;
    }));
  }

  // read returns the fields of the contact and stores them, or shows what is missing and returns
  // null. An optional address without any field is left out.
  read() {
    const said = Object.fromEntries(Object.entries(this.#inputs).map(([name, el]) => [name, el.value.trim()]));
    const digits = said.phone.replace(/[^0-9]/g, "").length;
    const wrong = said.name === "" ? ["name"] : [];
    if (!/^[0-9 +()-]+$/.test(said.phone) || digits < 5 || digits > 20) wrong.push("phone");
    if (this.#rule === "required" || ADDRESS.some((name) => name !== "country" && said[name])) wrong.push(...NEEDED.filter((name) => !said[name] && this.#inputs[name]));
    else for (const name of ADDRESS) delete said[name];
    if (said.postal && !/^[A-Za-z0-9 -]+$/.test(said.postal)) wrong.push("postal");
    if (wrong.length > 0) {
      for (const name of wrong.reverse()) this.blame(name); // the first field is last and gets the focus
      return null;
    }
    local.set(KEY, { ...local.get(KEY), ...said });
    return said;
  }

  // blame shows that a field is not accepted. It reports whether the field exists.
  blame(name) {
    const input = this.#inputs[name];
    if (!input) return false;
    blame(input, t(`receipt.${name}.fault`));
    input.focus();
    return true;
  }
}
