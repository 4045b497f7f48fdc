import { local } from "./api.js";
import { blame, field, h } from "./dom.js";
import { t } from "./text.js";

const KEY = "fs.contact"; // the last contact in this browser

// A Contact is the form for the recipient of an order.
export class Contact {
  #inputs;

  constructor(receipt, said) {
    const id = receipt.slice(-8);
    const last = said ?? local.get(KEY) ?? {};
    const input = (name, props) => h("input", { name, id: `${name}-${id}`, required: true, value: String(last[name] ?? ""), oninput: (e) => blame(e.target, ""), ...props });
    this.#inputs = {
      name: input("name", { autocomplete: "name", maxlength: "60" }),
      phone: input("phone", { type: "tel", autocomplete: "tel", maxlength: "40" }),
    };
    this.el = h("div", { class: "fields contact" }, Object.entries(this.#inputs).map(([name, el]) => field(t(`receipt.${name}`), el, t(`receipt.${name}.hint`))));
  }

  // read returns {name, phone} and stores it, or shows what is missing and returns null.
  read() {
    const said = { name: this.#inputs.name.value.trim(), phone: this.#inputs.phone.value.trim() };
    const digits = said.phone.replace(/[^0-9]/g, "").length;
    const wrong = said.name === "" ? "name" : !/^[0-9 +()-]+$/.test(said.phone) || digits < 5 || digits > 20 ? "phone" : "";
    if (wrong !== "") {
      this.blame(wrong);
      return null;
    }
    local.set(KEY, said);
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
