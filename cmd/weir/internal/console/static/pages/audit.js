import { h, Fragment } from "../lib/preact.js";
import { useEffect, useState } from "../lib/hooks.js";
import { get } from "../api.js";
import { mount } from "../frame.js";
import { duration, moment, t, word } from "../i18n.js";
import { live, useLive } from "../live.js";
import { Fault, State, Table, limitsText, link, useDelayed, useQuery } from "../ui.js";

const kinds = ["apply", "rollback", "credit", "reset", "raise", "freeze", "block", "lift", "sign_in", "sign_out"];

function Audit() {
  useLive();
  const [policy, setPolicy] = useQuery("policy", "");
  const [actor, setActor] = useQuery("actor", "");
  const [action, setAction] = useQuery("action", "");
  const [entries, setEntries] = useState(null);
  const [more, setMore] = useState(false);
  const [error, setError] = useState(null);
  const filter = useDelayed(JSON.stringify({ policy, actor, action }), 200);
  const address = (extra) => link("/v1/audit", { ...JSON.parse(filter), ...extra });
  const page = 100;
  const load = async (before) => {
    try {
      const got = (await get(address({ limit: page, before }))).entries;
      setEntries((old) => (before ? [...old, ...got] : got));
      setMore(got.length === page);
      setError(null);
    } catch (e) {
      setError(e);
    }
  };
  useEffect(() => { load(); }, [filter, live.audit.length && live.audit[0]?.id]);
  return h(Fragment, null,
    h("div", { class: "heading" }, h("h1", null, t("nav.audit")), h(Export, { address: address({}) })),
    h("div", { class: "form" },
      h("label", null, t("policy.name"), h("input", { type: "search", value: policy, "data-search": "", onInput: (e) => setPolicy(e.target.value) })),
      h("label", null, t("audit.actor"), h("input", { type: "search", value: actor, onInput: (e) => setActor(e.target.value) })),
      h("label", null, t("audit.action"), h("select", { value: action, onChange: (e) => setAction(e.target.value) },
        h("option", { value: "" }, t("filter.any")), kinds.map((k) => h("option", { key: k, value: k }, t("audit." + k)))))),
    h(Fault, { error }),
    h(Table, { rows: entries ?? [], id: (e) => e.id, empty: entries ? t("audit.none") : t("live.connecting"), columns: [
      { label: t("chart.time"), cell: (e) => h("time", { datetime: e.at }, moment(e.at)) },
      { label: t("audit.actor"), cell: (e) => e.actor || "–" },
      { label: t("audit.via"), cell: (e) => word("via", e.via) },
      { label: t("audit.action"), cell: (e) => [h(State, { level: e.ok === false ? "bad" : "" }, word("audit", e.action)), e.ok == null && h("span", { class: "problem" }, t("audit.unknown")), e.error && h("span", { class: "problem" }, e.error)] },
      { label: t("audit.subject"), cell: (e) => [e.policy && h("a", { href: link("policy", { name: e.policy }) }, e.policy), " ", (e.key || e.key_id) && h("span", { class: "mono" }, e.key ? e.key.join(" · ") : "#" + e.key_id)] },
      { label: t("audit.change"), cell: (e) => change(e) },
      { label: t("action.reason"), cell: (e) => e.reason || "–" }] }),
    more && h("p", null, h("button", { type: "button", onClick: () => load(entries.at(-1).id) }, t("audit.more"))));
}

const text = (v) => (v == null ? "" : typeof v === "string" ? v : JSON.stringify(v));

// adjusted says what an adjustment does in the language of the page. The audit log has a text such
// as "raised to 30/m until 2026-01-02T03:04:05.000Z by mei: ticket 812", whose end other columns show.
function adjusted(v) {
  const m = /^(?:raised to (.+?)|(frozen)|blocked)(?: until (\S+Z)| for (\S+))? by [^:]*: /s.exec(v);
  if (!m) return v;
  const [, limits, frozen, until, time] = m;
  return [word("adjustment", limits ? "raise" : frozen ? "freeze" : "block"), limits && limitsText(limits.split(", ")),
    until && t("key.until", { time: moment(until) }), time && duration(milliseconds(time))].filter(Boolean).join(" ");
}

// milliseconds returns a duration of Go, such as 1h30m0s.
const milliseconds = (v) => [...v.matchAll(/([\d.]+)(ms|h|m|s)/g)].reduce((sum, [, n, unit]) => sum + n * { h: 3600000, m: 60000, s: 1000, ms: 1 }[unit], 0);

function change(e) {
  const [from, to] = [adjusted(text(e.from)), e.action === "lift" ? t("audit.lifted") : adjusted(text(e.to))];
  const plain = from && to ? `${from} → ${to}` : to || from || "–";
  const version = ["apply", "rollback"].includes(e.action) && /^v?(\d+)$/.exec(to);
  if (!version) return plain;
  return [plain.replace(/\b\d/g, (d) => "v" + d).replaceAll("vv", "v"), " ", h("a", { href: link("edit", { view: "versions", version: version[1] }) }, t("audit.diff"))];
}

// Export saves what the filters show as JSON lines. The API chooses them by the Accept field,
// which a link cannot send.
function Export({ address }) {
  const [error, setError] = useState(null);
  const save = async () => {
    try {
      const r = await fetch(address, { headers: { accept: "application/x-ndjson" }, credentials: "same-origin" });
      if (!r.ok) throw new Error(`HTTP ${r.status}`);
      const url = URL.createObjectURL(await r.blob());
      const a = document.createElement("a");
      a.href = url;
      a.download = "weir-audit.ndjson";
      a.click();
      URL.revokeObjectURL(url);
      setError(null);
    } catch (e) {
      setError(e);
    }
  };
  return h("span", null, h(Fault, { error }), h("button", { type: "button", onClick: save }, t("audit.export")));
}

mount("audit", Audit);
