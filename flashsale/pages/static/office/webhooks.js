import { call } from "./api.js";
import { change, enter, may, localTime, table, utc } from "./desk.js";
import { field, h, main, put } from "./dom.js";
import { refused } from "./fault.js";
import { persist, sure, why } from "./persist.js";
import { moment, number, t } from "./text.js";

await enter();
const note = h("p", { class: "note", id: "note", role: "status" });
const secret = h("p", { class: "banner good", id: "secret", hidden: true });
const list = h("div", { id: "endpoints", class: "stack" });
const events = h("section", { id: "events", class: "stack", "aria-live": "polite" });
const url = h("input", { name: "url", type: "url", required: true, maxlength: "2000", placeholder: "https://shop.example/webhooks" });
const STATES = ["pending", "delivered", "dead", "skipped"];
const TYPES = ["order.reserved", "order.paid", "order.expired", "order.cancelled", "order.lost", "order.refunded", "sale.sold_out", "sale.ended"];
let shown = null;

main.replaceChildren(
  h("h1", {}, t("office.webhooks.title")), h("p", {}, t("webhooks.lead")), note, secret, list,
  may("manage") ? h("form", { class: "card inline", onsubmit: add }, field(t("webhooks.url"), url, t("webhooks.url.hint")), h("button", { class: "main", id: "add" }, t("webhooks.add"))) : "",
  events);

// ask sends a change, and returns the response or null.
async function ask(path, body) {
  const answer = await change("POST", path, body, (text) => put(note, text));
  put(note, answer.ok ? "" : refused(answer, (name) => t(name === "since" ? "webhooks.since" : "webhooks.url")));
  return answer.ok ? answer.body : null;
}

function showSecret(text) {
  secret.hidden = false;
  secret.replaceChildren(t("webhooks.secret"), " ", h("code", {}, text));
}

async function add(e) {
  e.preventDefault();
  const made = await ask("/api/webhooks", { url: url.value });
  if (!made) return;
  url.value = "";
  showSecret(made.secret);
  await load();
}

// act returns the handler of a button that changes an endpoint or an event.
const act = (path, name, then) => async () => {
  if (name !== "replay" && name !== "enable" && !(await sure(t(`webhooks.${name}.sure`), t(`webhooks.${name}`)))) return;
  const body = await ask(`${path}/${name}`, {});
  if (!body) return;
  if (body.secret) showSecret(body.secret);
  await then();
};

const button = (name, onclick) => h("button", { type: "button", class: name === "remove" ? "danger" : "quiet", "data-do": name, onclick }, t(`webhooks.${name}`));

async function load() {
  const answer = await persist(() => call("GET", "/api/webhooks"), (text) => put(note, text));
  if (!answer.ok) return put(note, why(answer));
  list.replaceChildren(...answer.body.endpoints.map((e) => {
    const path = `/api/webhooks/${e.id}`;
    return h("section", { class: "card" },
      h("h2", {}, h("code", {}, e.url)),
      h("p", {}, t(e.disabled ? `webhooks.disabled.${e.disabled}` : "webhooks.enabled"), " · ", t("webhooks.open", { pending: number(e.pending), dead: number(e.dead) })),
      h("div", { class: "row" },
        button("events", () => browse(path)), may("manage") && [button("rotate", act(path, "rotate", load)),
          e.disabled ? button("enable", act(path, "enable", load)) : button("disable", act(path, "disable", load)),
          button("remove", act(path, "remove", async () => { events.replaceChildren(); await load(); }))]));
  }));
  if (answer.body.endpoints.length === 0) list.replaceChildren(h("p", { class: "card" }, t("webhooks.none")));
}

const select = (name, values, label) => h("select", { name },
  h("option", { value: "" }, t("webhooks.any")), values.map((v) => h("option", { value: v }, label(v))));

// browse shows the deliveries of an endpoint.
async function browse(path) {
  shown = path;
  const state = select("state", STATES, (s) => t(`webhooks.state.${s}`));
  const type = select("type", TYPES, (s) => s);
  const subject = h("input", { name: "subject", maxlength: "128" });
  const since = h("input", { name: "since", type: "datetime-local", step: "1", value: localTime(new Date(Date.now() - 3600_000).toISOString().slice(0, 19) + "Z") });
  const rows = h("div", { id: "rows" });
  const more = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => page(more.dataset.after) }, t("office.more"));
  const detail = h("div", { id: "detail" });

  async function page(after) {
    const query = new URLSearchParams({ state: state.value, type: type.value, subject: subject.value.trim(), after });
    const answer = await persist(() => call("GET", `${path}/events?${query}`), (text) => put(note, text));
    if (shown !== path) return;
    if (!answer.ok) return put(note, refused(answer));
    const all = answer.body.events;
    const made = table(t("webhooks.events"), [t("webhooks.type"), t("webhooks.subject"), t("webhooks.state"), t("webhooks.attempts"), t("webhooks.time"), ""],
      all.map((e) => [e.type, h("code", {}, e.subject), h("span", { class: "pill" }, t(`webhooks.state.${e.state}`)), number(e.attempts), moment(e.at),
        button("show", () => show(e.id))]));
    if (after === "") rows.replaceChildren();
    rows.append(all.length > 0 || after !== "" ? made : h("p", { class: "card" }, t("webhooks.events.none")));
    more.hidden = all.length < 100;
    more.dataset.after = all.at(-1)?.id ?? "";
  }

  async function show(id) {
    const one = `${path}/events/${encodeURIComponent(id)}`;
    const answer = await persist(() => call("GET", one), (text) => put(note, text));
    if (!answer.ok) return put(note, refused(answer));
    const { event, attempts } = answer.body;
    const again = async () => { await Promise.all([page(""), show(id)]); };
    detail.replaceChildren(h("section", { class: "card" },
      h("h3", {}, event.type, " ", h("code", {}, event.id)),
      h("pre", { class: "scroll", tabindex: "0" }, JSON.stringify(event.body, null, 2)),
      may("manage") && h("div", { class: "row" }, button("replay", act(one, "replay", again)),
        ["pending", "dead"].includes(event.state) && button("skip", act(one, "skip", again))),
      attempts.length > 0 && table(t("webhooks.attempts"), [t("webhooks.time"), t("webhooks.status"), t("webhooks.duration"), t("webhooks.response")],
        attempts.map((a) => [moment(a.at), a.status ? String(a.status) : "–", `${number(a.duration_ms)} ms`, h("code", {}, a.error || a.response)]))));
    detail.querySelector("h3").scrollIntoView({ block: "nearest" });
  }

  events.replaceChildren(h("h2", {}, t("webhooks.events")),
    h("form", { class: "inline", onsubmit: (e) => { e.preventDefault(); page(""); } },
      field(t("webhooks.state"), state), field(t("webhooks.type"), type), field(t("webhooks.subject"), subject),
      h("button", { class: "quiet", id: "filter" }, t("webhooks.filter"))),
    may("manage") ? h("form", { class: "inline", onsubmit: async (e) => {
      e.preventDefault();
      const done = await ask(`${path}/replay`, { since: utc(since.value) });
      if (done) put(note, t("webhooks.replayed", { n: number(done.events) }), true);
      await page("");
    } }, field(t("webhooks.since"), since), h("button", { class: "quiet", id: "since" }, t("webhooks.replay.since"))) : "",
    detail, rows, h("div", { class: "row" }, more));
  await page("");
}

await load();
