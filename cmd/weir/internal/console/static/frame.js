// The frame around every page: navigation, state of the live data, language, theme,
// session, shortcuts.
import { h, render, Fragment } from "./lib/preact.js";
import { useLayoutEffect, useState } from "./lib/hooks.js";
import { del, get } from "./api.js";
import { clock, lang, offset, t, word } from "./i18n.js";
import { live, pause, self, start, storeDown, useLive } from "./live.js";
import { Dialog, Switch } from "./ui.js";

const pages = [["overview", "o"], ["policies", "p"], ["key", "k"], ["try", "t"], ["functions", "f"], ["edit", "e"], ["audit", "a"]];

export const session = { name: "", role: "", required: false };

// operates reports whether the session may change anything.
export const operates = () => session.role !== "read";

// blocked returns why actions are disabled, or "".
export const blocked = () => (!operates() ? t("blocked.read") : storeDown() ? t("blocked.store") : "");

function store(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // storage is disabled: the choice lasts until the next page
  }
}

function stored(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

// mount renders a page. name is its entry in the navigation; policy is the policy whose
// events it needs; without stream it is a page without live data.
export async function mount(name, Page, { policy, title, stream = true } = {}) {
  document.title = `${title ?? t("nav." + name)} · Weir`;
  const app = document.getElementById("app");
  if (name !== "sign-in") {
    try {
      Object.assign(session, await get("/v1/session"));
    } catch (e) {
      if (e.status === 401) return location.assign(signIn());
    }
    if (session.required && !session.role) return location.assign(signIn());
  }
  app.textContent = "";
  render(h(Frame, { name }, h(Page)), app);
  if (stream) start(policy);
  return undefined;
}

const signIn = () => "sign-in?next=" + encodeURIComponent(location.pathname.split("/").pop() + location.search);

function Frame({ name, children }) {
  useLive();
  const [help, setHelp] = useState(false);
  useLayoutEffect(() => shortcuts(setHelp), []);
  return h(Fragment, null,
    h("a", { class: "skip", href: "#main" }, t("nav.skip")),
    h("header", { class: "top" }, h("div", { class: "bar" },
      h("a", { class: "brand", href: "overview" }, "weir"),
      name !== "sign-in" && h("nav", { "aria-label": t("nav.label") }, pages.map(([p]) =>
        h("a", { key: p, href: p, "aria-current": p === name ? "page" : undefined }, t("nav." + p)))),
      h("div", { class: "tools" },
        name !== "sign-in" && h(Status),
        session.required && session.role && h("span", { class: "muted" }, `${session.name} · ${word("role", session.role)}`),
        h("button", { type: "button", class: "plain", lang: lang === "zh" ? "en" : "zh-CN", onClick: switchLanguage }, lang === "zh" ? "English" : "中文"),
        h(Theme),
        h("button", { type: "button", class: "plain", "aria-label": t("help.title"), "aria-keyshortcuts": "?", onClick: () => setHelp(true) }, "?"),
        session.required && session.role && h("button", { type: "button", class: "plain", onClick: signOut }, t("session.signOut"))))),
    name !== "sign-in" && h(Banner),
    h("main", { id: "main", tabindex: -1 }, children),
    h("footer", null, t("foot.times", { offset: offset() }), name !== "sign-in" && live.overview && ` · ${t("foot.node", { name: self()?.name ?? "" })}`),
    help && h(Help, { onClose: () => setHelp(false) }));
}

// Status says in words how fresh the page is. Its button pauses the stream.
function Status() {
  useLive();
  const text = {
    live: t("live.live"), paused: t("live.paused"), hidden: t("live.paused"), connecting: t("live.connecting"),
    reconnecting: live.at ? t("live.reconnecting", { time: clock(live.at) }) : t("live.connecting"),
  }[live.state];
  const version = live.overview?.version;
  return h(Fragment, null,
    version ? h("a", { class: "version", href: "edit?view=versions" }, "v" + version) : null,
    h("button", { type: "button", class: "plain live " + live.state, "aria-pressed": String(live.state === "paused"), title: t("live.hint"), onClick: pause }, text));
}

// Banner shows what makes the whole page incomplete.
function Banner() {
  useLive();
  if (storeDown()) return h("p", { class: "banner bad", role: "status" }, t("banner.store"));
  if (live.problem && live.problem.status !== 0) return h("p", { class: "banner bad", role: "status" }, live.problem.message);
  if (live.overview?.problem) return h("p", { class: "banner bad", role: "status" }, live.overview.problem);
  const stale = live.overview?.nodes?.filter((n) => n.stale) ?? [];
  if (!stale.length) return null;
  const all = live.overview.nodes.length;
  return h("p", { class: "banner warn", role: "status" }, t("banner.stale", { n: all - stale.length, all, names: stale.map((n) => n.name).join(", ") }));
}

function Theme() {
  const [theme, set] = useState(stored("weir.theme") ?? "system");
  const next = { system: "light", light: "dark", dark: "system" }[theme];
  return h("button", { type: "button", class: "plain", title: t("theme.hint"), onClick: () => {
    store("weir.theme", next);
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    set(next);
    dispatchEvent(new Event("weir-theme"));
  } }, t("theme." + theme));
}

function switchLanguage() {
  store("weir.lang", lang === "zh" ? "en" : "zh");
  location.reload();
}

async function signOut() {
  await del("/v1/session").catch(() => {});
  location.assign("sign-in");
}

function Help({ onClose }) {
  const [on, set] = useState(stored("weir.keys") !== "off");
  const rows = [...pages.map(([p, k]) => [["g", k], t("nav." + p)]), [["/"], t("help.search")], [["Space"], t("help.pause")],
    [["Ctrl", "Enter"], t("help.review")], [["Esc"], t("help.close")], [["?"], t("help.title")]];
  return h(Dialog, { title: t("help.title"), onClose },
    h("table", { class: "keys" }, h("tbody", null, rows.map(([keys, text]) => h("tr", { key: text },
      h("td", null, keys.map((k, i) => [i ? " " : "", h("kbd", null, k)])), h("td", null, text))))),
    h("label", { class: "check" }, h("input", { type: "checkbox", checked: on, onChange: (e) => {
      store("weir.keys", e.target.checked ? "on" : "off");
      set(e.target.checked);
    } }), t("help.enabled")),
    h("div", { class: "actions" }, h("button", { type: "button", onClick: onClose }, t("dialog.close"))));
}

// shortcuts handles single characters outside inputs and dialogs.
function shortcuts(setHelp) {
  let g = 0;
  const onKey = (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || stored("weir.keys") === "off" || document.querySelector("dialog[open]")) return;
    const at = e.target;
    if (at.closest?.("input, textarea, select, [contenteditable]")) return;
    if (e.key === " " && !at.closest?.("button, a, summary")) {
      pause();
    } else if (e.key === "?") {
      setHelp(true);
    } else if (e.key === "/") {
      const search = document.querySelector("[data-search]");
      if (search) search.focus();
      else location.assign("key");
    } else if (e.key === "g") {
      g = e.timeStamp;
      return;
    } else if (g && e.timeStamp - g < 2000) {
      const page = pages.find(([, k]) => k === e.key);
      g = 0;
      if (!page) return;
      location.assign(page[0]);
    } else {
      return;
    }
    e.preventDefault();
  };
  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}

// Range switches the range of charts, which is part of the address.
export const Range = ({ value, onChange }) => h(Switch, { label: t("range.label"), value, onChange, options: [["1m", t("range.1m")], ["5m", t("range.5m")], ["10m", t("range.10m")]] });
export const seconds = (range) => ({ "1m": 60, "5m": 300 })[range] ?? 600;
