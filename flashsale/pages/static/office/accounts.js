import { call } from "./api.js";
import { ROLES, change, enter, may, table } from "./desk.js";
import { field, h, main, put } from "./dom.js";
import { refused } from "./fault.js";
import { actor, logged } from "./log.js";
import { persist, sure, why } from "./persist.js";
import { moment, t } from "./text.js";

const me = await enter();
const note = h("p", { class: "note", id: "note", role: "status" });
const secret = h("p", { class: "banner good", id: "secret", hidden: true });
const list = h("div", { id: "accounts" });
const log = h("div", { id: "log" });

// ask sends a change, and returns the response or null.
async function ask(path, body, done = "") {
  const answer = await change("POST", path, body, (text) => put(note, text));
  put(note, answer.ok ? done : refused(answer, (name) => t(name === "role" ? "accounts.role" : name === "name" ? "office.name" : name === "current" ? "accounts.current" : "accounts.next")), answer.ok);
  return answer.ok ? answer.body : null;
}

const password = (name, autocomplete, required) => h("input", { name, type: "password", autocomplete, required, minlength: "8", maxlength: "256" });

// own returns the form for the password of this account.
function own() {
  const current = password("current", "current-password", true);
  const next = password("password", "new-password", true);
  return h("form", {
    class: "card narrow", id: "own", onsubmit: async (e) => {
      e.preventDefault();
      const done = await ask("/api/me/password", { current: current.value, password: next.value }, t("accounts.own.done"));
      if (!done) return;
      me.csrf = done.csrf;
      current.value = next.value = "";
    },
  }, h("h2", {}, t("accounts.own", { name: me.name })), h("p", {}, t("accounts.own.role", { role: t(`role.${me.role}`) })),
  field(t("accounts.current"), current), field(t("accounts.next"), next), h("button", { class: "quiet", id: "own-save" }, t("accounts.password")));
}

const roles = (selected, props) => h("select", props, ROLES.map((r) => h("option", { value: r, selected: r === selected }, t(`role.${r}`))));

function showSecret(name, text) {
  secret.hidden = !text;
  if (text) secret.replaceChildren(t("accounts.secret", { name }), " ", h("code", {}, text));
}

// added returns the form of a new account.
function added() {
  const name = h("input", { name: "name", required: true, maxlength: "128", autocomplete: "off" });
  const role = roles("view", { name: "role" });
  return h("form", {
    class: "card narrow", onsubmit: async (e) => {
      e.preventDefault();
      const done = await ask("/api/accounts", { name: name.value, role: role.value }, t("accounts.added"));
      if (!done) return;
      showSecret(done.name, done.password);
      name.value = "";
      await load();
    },
  }, h("h2", {}, t("accounts.new")), field(t("office.name"), name), field(t("accounts.role"), role, t("accounts.role.hint")), h("button", { class: "main", id: "add" }, t("accounts.add")));
}

// act returns the handler of a button that changes an account.
const act = (action, name) => async () => {
  if (action !== "enable" && !(await sure(t(`accounts.${action}.sure`, { name }), t(`accounts.${action}`)))) return;
  const done = await ask(`/api/accounts/${action}`, { name }, t("accounts.changed"));
  if (done) showSecret(name, done.password);
  await load();
};

const button = (action, name) => h("button", { type: "button", class: "plain", "data-do": action, "data-name": name, onclick: act(action, name) }, t(`accounts.${action}`));

async function load() {
  const [answer, changes] = await Promise.all(["/api/accounts", "/api/accounts/log"].map((path) => persist(() => call("GET", path), (text) => text && put(note, text))));
  if (!answer.ok) return put(note, why(answer));
  list.replaceChildren(table(t("office.accounts.title"), [t("office.name"), t("accounts.role"), t("accounts.state"), ""], answer.body.accounts.map((a) => [
    a.name,
    roles(a.role, { "aria-label": `${t("accounts.role")}: ${a.name}`, "data-role": a.name, onchange: async (e) => {
      const done = await ask("/api/accounts/role", { name: a.name, role: e.target.value }, t("accounts.changed"));
      if (done && a.name === me.name) return location.reload();
      await load();
    } }),
    t(a.disabled ? "accounts.disabled" : "accounts.enabled"),
    h("span", { class: "row" }, a.name !== me.name && button("password", a.name), button(a.disabled ? "enable" : "disable", a.name)),
  ])));
  if (changes.ok) log.replaceChildren(table(t("log.title"), [t("log.at"), t("log.actor"), t("log.what")], changes.body.log.map((l) => [moment(l.at), actor(l.actor), logged(l.what)])));
}

main.replaceChildren(h("h1", {}, t("office.accounts.title")), note, secret, ...(may("owner")
  ? [h("section", { class: "card" }, list), added(), own(), h("section", { class: "card" }, log)] : [own()]));
if (may("owner")) await load();
