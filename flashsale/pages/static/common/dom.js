// Elements are made of strings by text nodes alone, so nothing that a merchant or a server
// says can become markup.

// h makes an element. Of props, class, functions (onclick…) and booleans do what they say;
// the rest are attributes, and undefined ones are left out. Children are nodes, strings, or
// lists of them; nothing (null, false) is skipped.
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

// say tells those who do not see the page what has changed.
export function say(text) {
  const el = document.getElementById("say");
  if (el.textContent !== text) el.textContent = text;
}

// A Slot is a place in the page that is built anew only if what it shows is another thing
// (its key), so that buttons keep their focus and clicks are not lost. What ticks meanwhile
// is written by the functions that live() was given.
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

// put writes text if it is another one: a reader would say the same text again.
export function put(el, text) {
  if (el.textContent !== text) el.textContent = text;
}

// field makes a label with its input, a hint and a place for what is wrong with it.
export function field(label, input, hint = "") {
  const id = input.id || (input.id = `f-${input.name}`);
  const note = h("span", { class: "hint", id: `${id}-hint` }, hint);
  const fault = h("span", { class: "fault", id: `${id}-fault` });
  input.setAttribute("aria-describedby", `${id}-hint ${id}-fault`);
  return h("div", { class: "field" }, h("label", { for: id }, label), input, note, fault);
}

// blame shows what is wrong with an input, or takes it back.
export function blame(input, text) {
  document.getElementById(`${input.id}-fault`).textContent = text;
  if (text) input.setAttribute("aria-invalid", "true");
  else input.removeAttribute("aria-invalid");
}
