import { random } from "./api.js";
import { blame, field, h, put } from "./dom.js";
import { change, localTime, utc } from "./desk.js";
import { faultOf, faultsOf, refused } from "./fault.js";
import { digits, number, t } from "./text.js";

const MINUTE = 60_000;

// The fields of a draft in order: how each is shown and parsed.
const text = (props) => ({ make: (name) => h("input", { name, ...props }), show: String, read: (v) => v.trim() });
const whole = (props, unit = 1) => ({
  unit,
  make: (name) => h("input", { name, type: "number", inputmode: "decimal", step: "any", ...props }),
  show: (v) => String(v / unit),
  read: (v) => (v.trim() === "" ? NaN : Math.round(Number(v) * unit)),
});
const when = { make: (name) => h("input", { name, type: "datetime-local", step: "1", required: true }), show: localTime, read: utc };

export const FIELDS = {
  title: text({ required: true, maxlength: "120" }),
  sku: text({ required: true, maxlength: "64", autocomplete: "off", spellcheck: "false" }),
  price: { make: (name) => h("input", { name, inputmode: "decimal", required: true, autocomplete: "off" }), show: decimal, read: cents },
  currency: { ...text({ required: true, maxlength: "3", autocomplete: "off" }), read: (v) => (/^[a-z]{3}$/i.test(v.trim()) ? v.trim().toUpperCase() : NaN) },
  stock: whole({ required: true, min: "1" }),
  per_user: whole({ min: "1", max: "10" }),
  max_quantity: whole({ min: "1", max: "10" }),
  starts_at: when,
  ends_at: when,
  queue: {
    make: (name) => h("select", { name }, ["fifo", "shuffled", "direct"].map((q) => h("option", { value: q }, t(`queue.${q}`)))),
    show: String, read: (v) => v,
  },
  lobby_ms: whole({ min: "0" }, MINUTE),
  headroom: whole({ min: "1", max: "10" }),
  pay_within_ms: whole({ min: "0" }, MINUTE),
  token_for_ms: whole({ min: "0" }, 1000),
  work: whole({ min: "0", max: "24" }),
  members_only: {
    make: (name) => h("select", { name }, ["0", "1"].map((v) => h("option", { value: v }, t(`draft.members_only.${v}`)))),
    show: String, read: Number,
  },
  campaign: { ...text({ maxlength: "40", autocomplete: "off", spellcheck: "false" }), show: (v) => v ?? "", optional: true },
  address: {
    make: (name) => h("select", { name }, ["none", "optional", "required"].map((v) => h("option", { value: v }, t(`draft.address.${v}`)))),
    show: String, read: (v) => v,
  },
};

// decimal formats an amount in the smallest unit as a decimal number, and cents parses it.
// Neither uses floats: 0.29 × 100 is not 29 there.
export function decimal(amount, currency) {
  const n = digits(currency);
  const s = String(amount).padStart(n + 1, "0");
  return n === 0 ? s : `${s.slice(0, -n)}.${s.slice(-n)}`;
}
export function cents(value, currency) {
  const n = digits(currency);
  const m = /^(\d{1,13})(?:[.,](\d*))?$/.exec(value.trim());
  if (!m || (m[2] ?? "").length > n) return NaN;
  return Number(m[1] + (m[2] ?? "").padEnd(n, "0"));
}

// fresh returns the initial draft of a new sale.
export function fresh(now) {
  const starts = Math.ceil((now + 10 * MINUTE) / MINUTE) * MINUTE;
  return {
    sku: "", title: "", price: 0, currency: "CNY", stock: 100, per_user: 1, max_quantity: 1,
    starts_at: new Date(starts).toISOString(), ends_at: new Date(starts + 60 * MINUTE).toISOString(),
    headroom: 3, queue: "fifo", lobby_ms: 0, pay_within_ms: 15 * MINUTE, token_for_ms: 30_000, work: 0, members_only: 0, campaign: "", address: "none",
  };
}

// faults returns [field, text] for every field of the form that the server did not accept. The
// bounds have the unit of the form.
const faults = (answer, currency) => faultsOf(answer).filter((e) => e.field in FIELDS)
  .map((e) => [e.field, faultOf(e, e.field === "price" ? (v) => decimal(v, currency) : (v) => number(v / (FIELDS[e.field].unit ?? 1)))]);

// EDITABLE are the fields that can change while buyers see a sale.
export const EDITABLE = ["title", "per_user", "max_quantity", "ends_at", "pay_within_ms", "work", "campaign"];

// form returns the form of a draft. send is [method, path, other fields of the body]. done is
// called with the sale that the server returns. It shows the fields of only, and sends the
// others, and those that were not touched, as they are; null shows and reads all.
export function form(draft, send, label, done, only = null) {
  const inputs = {};
  const note = h("p", { class: "note", role: "alert" });
  let key = "", sent = ""; // a repeated request of the same draft has the same key
  const parts = Object.entries(FIELDS).map(([name, f]) => {
    const input = (inputs[name] = f.make(name));
    input.value = f.show(draft[name], draft.currency);
    return field(t(`draft.${name}`), input, t(`draft.${name}.hint`));
  });
  const lobby = () => { inputs.lobby_ms.closest(".field").hidden = inputs.queue.value !== "shuffled"; };
  if (only) for (const [name, input] of Object.entries(inputs)) input.closest(".field").hidden = !only.includes(name);
  else {
    inputs.queue.addEventListener("change", lobby);
    lobby();
  }
  const before = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value]));
  const fault = (name, said) => {
    inputs[name].closest(".field").hidden = false;
    blame(inputs[name], said);
    inputs[name].focus();
  };
  const button = h("button", { class: "main", id: "save" }, label);
  return h("form", {
    class: "card draft", novalidate: true, onsubmit: async (e) => {
      e.preventDefault();
      if (button.getAttribute("aria-disabled")) return;
      put(note, "");
      for (const input of Object.values(inputs)) blame(input, "");
      const body = { ...send[2] };
      for (const [name, f] of Object.entries(FIELDS)) {
        const kept = only && inputs[name].value === before[name];
        body[name] = kept ? draft[name] : f.read(inputs[name].value, inputs.currency.value.trim());
      }
      const unread = Object.keys(FIELDS).filter((name) => Number.isNaN(body[name]) || (body[name] === "" && !FIELDS[name].optional));
      const named = unread.includes("currency") ? unread.filter((name) => name !== "price") : unread; // whose digits depend on it
      if (named.length > 0) return named.reverse().forEach((name) => fault(name, t(inputs[name].value.trim() === "" ? "draft.empty" : "draft.unread"))); // the first has the focus
      if (body.queue !== "shuffled") body.lobby_ms = 0;
      button.setAttribute("aria-disabled", "true");
      const text = JSON.stringify(body);
      if (text !== sent) [key, sent] = [random(), text];
      const answer = await change(send[0], send[1], body, (said) => put(note, said), { "Idempotency-Key": key });
      button.removeAttribute("aria-disabled");
      if (answer.ok) return done(answer.body);
      const parts = faults(answer, body.currency);
      if (parts.length > 0) for (const [field, text] of parts.reverse()) fault(field, text); // the first field is last and gets the focus
      else put(note, answer.status === 409 ? t("draft.conflict") : refused(answer));
    },
  }, h("div", { class: "fields" }, parts), h("div", { class: "row" }, button), note);
}
