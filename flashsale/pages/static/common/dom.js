// Elements contain strings as text nodes only, so text of a merchant or a server cannot become
// markup.

// h creates an element. In props, class, functions (onclick…) and booleans set properties;
// other values set attributes, and undefined ones are ignored. Children are nodes, strings or
// lists of them; null and false are ignored.
export function h(tag, props = {}, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") el.addEventListener(name.slice(2), value);
    else if (typeof value === "boolean") el.toggleAttribute(name, value);
    else if (value !== undefined) el.setAttribute(name, value);
  }
  el.append(...children.flat(3).filter((c) => c !== null && c !== undefined && c !== false));
  return el;
}

export const main = document.getElementById("main");

// say announces a change to screen readers.
export function say(text) {
  const el = document.getElementById("say");
  if (el.textContent !== text) el.textContent = text;
}

// A Slot is a part of the page that is rebuilt only if its key changes, so that buttons keep
// their focus and clicks are not lost. The functions passed to live() update it between
// rebuilds.
export class Slot {
  #key;
  #live = [];

  constructor(props = {}) {
    this.el = h("div", props);
  }

  show(key, build) {
    if (key !== this.#key) {
      const had = this.el.contains(document.activeElement);
      this.#key = key;
      this.#live = [];
      this.el.replaceChildren(...[build((fn) => this.#live.push(fn))].flat(3).filter(Boolean));
      if (had) (this.el.querySelector("[data-main]:not(:disabled)") ?? this.el.querySelector("h2"))?.focus();
    }
    this.tick();
  }

  tick() {
    for (const fn of this.#live) fn();
  }
}

// put sets a text if it differs, because a screen reader would repeat the same text. good marks it
// as a success.
export function put(el, text, good = false) {
  if (el.textContent !== text) el.textContent = text;
  el.classList.toggle("good", good);
}

// field creates a label with its input, a hint and an element for the error.
export function field(label, input, hint = "") {
  const id = input.id || (input.id = `f-${input.name}`);
  const note = h("span", { class: "hint", id: `${id}-hint` }, hint);
  const fault = h("span", { class: "fault", id: `${id}-fault` });
  input.setAttribute("aria-describedby", `${id}-hint ${id}-fault`);
  return h("div", { class: "field" }, h("label", { for: id }, label), input, note, fault);
}

// blame shows an error at an input, or removes it.
export function blame(input, text) {
  document.getElementById(`${input.id}-fault`).textContent = text;
  if (text) input.setAttribute("aria-invalid", "true");
  else input.removeAttribute("aria-invalid");
}
