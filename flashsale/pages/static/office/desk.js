import { call } from "./api.js";
import { field, h, main, put } from "./dom.js";
import { persist, why } from "./persist.js";
import { t } from "./text.js";

// Shared by the pages for merchants: the login, and the token that every change needs.
let me = null;

// The roles of accounts. Each includes those before it.
export const ROLES = ["view", "service", "manage", "owner"];

// may reports whether the account may do what a role may do. The server decides; the pages hide
// what it would refuse.
export const may = (role) => ROLES.indexOf(me?.role) >= ROLES.indexOf(role);

// only returns an element that can be changed with a role, and read without it.
export function only(role, el) {
  if (may(role)) return el;
  for (const button of el.querySelectorAll("button")) button.remove();
  for (const input of el.querySelectorAll("input, select, textarea")) input.disabled = true;
  return el;
}

// change requests a change, and repeats it until it is decided.
export async function change(method, path, body, report = () => {}, headers = {}) {
  const answer = await persist(() => call(method, path, body, { "Flashsale-CSRF": me?.csrf ?? "", ...headers }), report);
  if (answer.reason?.startsWith("needs_")) answer.detail = why(answer); // the page has it in its language
  return answer;
}

// upload sends a file as the body of a change.
export async function upload(path, file) {
  try {
    const response = await fetch(path, {
      method: "POST", body: file, signal: AbortSignal.timeout(60_000),
      headers: { Accept: "application/json", "Content-Type": "application/octet-stream", "Flashsale-CSRF": me?.csrf ?? "" },
    });
    const body = await response.json();
    return { ok: response.ok, status: response.status, body, reason: String(body.reason ?? ""), detail: String(body.detail ?? "") };
  } catch (cause) {
    return { ok: false, status: 0, body: {}, reason: "unreachable", detail: String(cause) };
  }
}

// enter returns the account. Without a session it asks for a name and a password first.
export async function enter() {
  const answer = await persist(() => call("GET", "/api/me"), (text) => text && put(main, text));
  if (answer.ok) me = answer.body;
  else if (answer.status === 401) me = await login();
  else {
    main.replaceChildren(h("p", { class: "banner warn", role: "alert" }, why(answer)));
    await new Promise(() => {});
  }
  document.querySelector(".head .wide").append(h("button", { type: "button", class: "plain", id: "logout", onclick: leave }, t("office.logout", { name: me.name })));
  return me;
}

async function leave() {
  await change("POST", "/api/logout");
  location.assign("/");
}

function login() {
  return new Promise((done) => {
    const name = h("input", { name: "name", autocomplete: "username", required: true, maxlength: "128" });
    const password = h("input", { name: "password", type: "password", autocomplete: "current-password", required: true, maxlength: "256" });
    const note = h("p", { class: "note", role: "alert" });
    const button = h("button", { class: "main", id: "login" }, t("office.login"));
    main.replaceChildren(h("form", {
      class: "card narrow", onsubmit: async (e) => {
        e.preventDefault();
        if (button.getAttribute("aria-disabled")) return;
        button.setAttribute("aria-disabled", "true");
        const answer = await persist(() => call("POST", "/api/login", { name: name.value, password: password.value }), (text) => put(note, text));
        button.removeAttribute("aria-disabled");
        if (answer.ok) done(answer.body);
        else put(note, answer.status === 401 || answer.status === 403 ? t("office.login.wrong") : why(answer));
      },
    }, h("h1", {}, t("office.login.title")), field(t("office.name"), name), field(t("office.password"), password), button, note));
    name.focus();
  });
}

// local formats a time for an input of type datetime-local, and utc parses it.
export function localTime(text) {
  const d = new Date(text);
  return new Date(d - d.getTimezoneOffset() * 60_000).toISOString().slice(0, -1).replace(/\.000$/, "");
}
export const utc = (value) => (value === "" || Number.isNaN(Date.parse(value)) ? "" : new Date(value).toISOString());

// table creates a table that scrolls where it is too wide.
export function table(caption, heads, rows, props = {}) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", props, h("caption", {}, caption),
      h("thead", {}, h("tr", {}, heads.map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((c) => h("td", {}, c)))))));
}
