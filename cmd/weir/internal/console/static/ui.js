// Parts that several pages share.
import { h } from "./lib/preact.js";
import { useEffect, useRef, useState } from "./lib/hooks.js";
import { duration, t, word } from "./i18n.js";

// Table renders rows; at 375 px a row becomes a block whose cells carry their labels. A
// column is {label, num, cell(row), sort(row), name}; sorted is {name, down} or undefined.
export function Table({ columns, rows, id, caption, empty, sorted, onSort, wide }) {
  if (!rows?.length && empty) return h("p", { class: "empty" }, empty);
  return h("table", { class: wide ? "wide" : undefined },
    caption && h("caption", null, caption),
    h("thead", null, h("tr", null, columns.map((c) => h("th", {
      scope: "col", class: c.num ? "num" : undefined,
      "aria-sort": sorted && sorted.name === c.name ? (sorted.down ? "descending" : "ascending") : undefined,
    }, onSort && c.sort ? h("button", { type: "button", class: "plain", onClick: () => onSort(c.name) },
      c.label, sorted?.name === c.name ? (sorted.down ? " ↓" : " ↑") : "") : c.label)))),
    h("tbody", null, rows.map((row, i) => h("tr", { key: id ? id(row) : i, class: row.class },
      columns.map((c, j) => h(j === 0 ? "th" : "td", {
        scope: j === 0 ? "row" : undefined, class: c.num ? "num" : undefined, "data-label": c.label,
      }, c.cell(row)))))));
}

// Problem shows an error beside its cause.
export function Fault({ error, id }) {
  if (!error) return null;
  const b = error.body ?? {};
  const text = error.status === 0 ? t("error.unreachable") : error.message;
  return h("p", { class: "fault", role: "alert", id },
    text,
    b.field && !text.includes(b.field) && h("span", { class: "detail" }, ` · ${b.field}: ${t("error.got")} ${b.value || "–"}, ${t("error.want")} ${b.expected || "–"}`));
}

// Switch is a group of buttons of which one is on.
export function Switch({ label, value, options, onChange }) {
  return h("span", { class: "switch", role: "group", "aria-label": label }, options.map(([v, text]) =>
    h("button", { type: "button", key: v, "aria-pressed": String(v === value), onClick: () => onChange(v) }, text)));
}

// Dialog is a modal dialog that Esc closes.
export function Dialog({ title, onClose, children, class: name }) {
  const ref = useRef();
  useEffect(() => {
    const d = ref.current;
    d.showModal();
    return () => d.close();
  }, []);
  return h("dialog", { ref, class: name, "aria-labelledby": "dialog-title", onCancel: (e) => { e.preventDefault(); onClose(); } },
    h("h2", { id: "dialog-title" }, title), children);
}

// useQuery keeps a value in the address of the page. Keys never go there.
export function useQuery(name, initial) {
  const [value, set] = useState(() => new URLSearchParams(location.search).get(name) ?? initial);
  return [value, (v) => {
    set(v);
    setQuery(name, v === initial ? "" : v);
  }];
}

export function setQuery(name, value) {
  const q = new URLSearchParams(location.search);
  if (value === "" || value == null) q.delete(name);
  else q.set(name, value);
  const text = q.toString();
  history.replaceState(null, "", location.pathname + (text ? "?" + text : ""));
}

export const query = (name) => new URLSearchParams(location.search).get(name) ?? "";

// useDelayed returns a value once it has not changed for some milliseconds.
export function useDelayed(value, wait) {
  const [late, set] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => set(value), wait);
    return () => clearTimeout(timer);
  }, [value]);
  return late;
}

// The draft of the editor, {text, base, baseText}, outlives reloads and disconnection, in this tab only.
const draftKey = "weir.draft";
export function storedDraft() {
  try {
    return JSON.parse(sessionStorage.getItem(draftKey));
  } catch {
    return null;
  }
}

export function storeDraft(draft) {
  try {
    if (draft) sessionStorage.setItem(draftKey, JSON.stringify(draft));
    else sessionStorage.removeItem(draftKey);
  } catch {
    // storage is disabled: the draft lasts as long as the page
  }
}

// link returns the address of a page with its parameters.
export function link(page, params = {}) {
  const q = new URLSearchParams(Object.entries(params).filter(([, v]) => v)).toString();
  return page + (q ? "?" + q : "");
}

// keyText joins the parts of a key; without the key, for the role read, its hash.
// Of a long key, samples keep the beginning.
export const keyText = (k) => (k.key ? k.key.join(" · ") + (k.whole === false ? "…" : "") : "#" + k.id);

// brief leaves out a burst that equals the count.
export const brief = (limit) => limit.replace(/^(\d+)(\/\S+) burst \1(?!\d)/, "$1$2");
export const limitsText = (list) => [list ?? []].flat().map((l) => (typeof l === "string" ? brief(l) : JSON.stringify(l))).join(", ");

// Trend draws values as a line of 96 × 20 pixels. With denied, which are parts of the values, it
// draws them as the line and the values dashed.
export function Trend({ values, denied, label }) {
  const top = Math.max(1, ...values.map((v) => v ?? 0));
  const line = (list, name) => h("polyline", { class: name, points: list.map((v, i) => `${((i / Math.max(1, list.length - 1)) * 95 + 0.5).toFixed(1)},${(18.5 - ((v ?? 0) / top) * 17).toFixed(1)}`).join(" ") });
  return h("svg", { class: "trend", viewBox: "0 0 96 20", preserveAspectRatio: "none", width: 96, height: 20, role: "img", "aria-label": label },
    denied ? [line(values, "line admitted dash"), line(denied)] : line(values));
}

// State is a word with the colour of its severity: ok, warn, bad or none.
export const State = ({ level, children }) => h("span", { class: level ? "state " + level : "state" }, children);

// Breaker is the state of a circuit breaker, with the time in ms until an open one admits a trial.
// A state may have a note in brackets.
export function Breaker({ state, open }) {
  const name = (state ?? "").split(" ")[0];
  return h(State, { level: { open: "bad", "half-open": "warn" }[name] }, name ? word("breaker", name) : "–", open > 0 ? ` ${duration(open)}` : "", (state ?? "").slice(name.length));
}
