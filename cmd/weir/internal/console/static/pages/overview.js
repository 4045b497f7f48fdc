import { h, Fragment } from "../lib/preact.js";
import { useEffect, useState } from "../lib/hooks.js";
import { get } from "../api.js";
import { Chart } from "../chart.js";
import { Range, mount, seconds } from "../frame.js";
import { duration, ms, rate, share, t, word } from "../i18n.js";
import { live, useLive } from "../live.js";
import { Breaker, State, Table, Trend, limitsText, link, useQuery } from "../ui.js";

function Overview() {
  useLive();
  const [range, setRange] = useQuery("range", "10m");
  const o = live.overview;
  if (!o) return h(Fragment, null, h("h1", null, t("nav.overview")), h("p", { class: "empty" }, t("live.connecting")));
  const quiet = !o.policies.some((p) => p.rate > 0) && !live.all.values.admitted.some((v) => v > 0);
  return h(Fragment, null,
    h("div", { class: "heading" }, h("h1", null, t("nav.overview")), h(Range, { value: range, onChange: setRange })),
    h(Totals),
    quiet && h("div", { class: "note" }, h("p", null, t("overview.quiet")), h("pre", { tabindex: 0 }, `curl -i http://${location.hostname}:8000/`)),
    h("div", { class: "columns wide-left" },
      h(Chart, { title: t("overview.rates"), unit: t("unit.perSecond"), series: live.all, seconds: seconds(range), versions: live.versions, lines: [
        { name: "admitted", label: t("count.admitted"), color: "admitted" },
        { name: "denied", label: t("count.denied"), color: "denied" }] }),
      h(Chart, { title: t("overview.latency"), unit: t("unit.milliseconds"), series: live.all, seconds: seconds(range), form: ms, lines: [
        { name: "p50", label: "p50", color: "admitted" }, { name: "p99", label: "p99", color: "delayed" }] })),
    h("div", { class: "columns wide-left" },
      h("section", null, h("h2", null, h("a", { href: "policies" }, t("nav.policies"))), h(Policies, { policies: o.policies })),
      h("div", null,
        h("section", null, h("h2", null, t("overview.nodes"), h("span", { class: "muted" }, ` ${t("overview.of", { n: o.nodes.filter((n) => !n.stale).length, all: o.nodes.length })}`)), h(Nodes, { nodes: o.nodes, version: o.version })),
        h("section", null, h("h2", null, t("overview.programs")), h(Programs, { programs: o.programs, version: o.version }), h("p", { class: "muted small" }, t("overview.nginx"))),
        h(Upstreams))));
}

// Upstreams shows the protections of this node; nothing if it has none.
function Upstreams() {
  const [rows, setRows] = useState([]);
  useEffect(() => {
    const load = () => get("/v1/upstreams").then((d) => setRows(d.upstreams), () => {});
    load();
    const timer = setInterval(() => { if (rows.length && !document.hidden && live.state !== "paused") load(); }, 1000);
    return () => clearInterval(timer);
  }, [rows.length]);
  if (!rows.length) return null;
  const state = (p) => [h("span", { key: p.name }, word("protection", p.name), ": ", p.name === "breaker" ? h(Breaker, { state: p.state, open: p.open_ms }) : p.state)];
  return h("section", null, h("h2", null, t("overview.upstreams"), h("span", { class: "muted" }, " " + t("node.self"))), h(Table, { rows, id: (u) => u.upstream + u.route, columns: [
    { label: t("upstream.name"), cell: (u) => [h("span", { class: "mono" }, u.upstream), h("span", { class: "muted" }, " " + u.route)] },
    { label: t("upstream.protections"), cell: (u) => u.protections.map((p) => h("div", { key: p.name }, state(p))) }] }));
}

function Totals() {
  const values = live.tick?.all;
  const all = live.overview.totals;
  const get = (i, name) => values?.[i] ?? all[name];
  const admitted = get(0, "admitted"), denied = get(1, "denied");
  const one = (name, n, extra, level) => h("div", { key: name, class: level && n > 0 ? level : undefined }, h("dt", null, t("count." + name)),
    h("dd", null, rate(n), h("span", { class: "unit" }, t("unit.slashS")), extra && h("span", { class: "extra" }, extra)));
  const latency = live.tick?.latency ?? [live.overview.latency_ms?.p50, live.overview.latency_ms?.p99];
  return h("dl", { class: "totals" },
    one("admitted", admitted), one("denied", denied, share(admitted + denied ? denied / (admitted + denied) : 0), "denied"),
    one("delayed", get(2, "delayed"), "", "delayed"), one("shadow", get(3, "shadow"), "", "shadow"), one("overloaded", get(4, "overloaded"), "", "overload"),
    h("div", null, h("dt", null, t("overview.decision")), h("dd", null, ms(latency[0]), h("span", { class: "unit" }, " p50"), "  ", ms(latency[1]), h("span", { class: "unit" }, " p99 ms"))));
}

function Policies({ policies }) {
  const rows = [...policies].sort((a, b) => b.denied - a.denied || b.rate - a.rate || a.name.localeCompare(b.name));
  return h(Fragment, null, h(Table, { rows: rows.slice(0, 12), id: (p) => p.name, empty: t("policies.empty"), columns: [
    { label: t("policy.name"), cell: (p) => h("a", { href: link("policy", { name: p.name }) }, p.name) },
    { label: t("policy.limits"), cell: (p) => h("span", { class: "muted" }, limitsText(p.limits)) },
    { label: t("policy.rate"), num: true, cell: (p) => [rate(p.rate), p.programs && h("span", { class: "muted" }, " " + t("policy.inPrograms", { n: rate(p.programs.rate) }))] },
    { label: t("policy.denied"), num: true, cell: (p) => (p.denied > 0 ? h("span", { class: "denied" }, share(p.denied_share)) : share(0)) },
    { label: t("policy.trend"), cell: (p) => h(Trend, { values: p.trend ?? [], label: t("policy.trendLabel", { n: rate(p.denied) }) }) }] }),
  rows.length > 12 && h("p", null, h("a", { href: "policies" }, t("policies.all", { n: rows.length }))));
}

// order puts what has a problem first.
const order = (list) => [...list].sort((a, b) => Number(problem(b)) - Number(problem(a)) || (a.name ?? a.service).localeCompare(b.name ?? b.service));
const problem = (n) => Boolean(n.stale || n.problem || (n.mode && n.mode !== "normal") || (n.store && n.store.state !== "up" && n.store.state !== "memory"));

const versionCell = (n, version, none) => (n.version ? h(State, { level: version && n.version < version ? "warn" : "" }, "v" + n.version + (version && n.version < version ? " " + t("node.behind") : "")) : h("span", { class: "muted" }, n.stale ? "–" : t(none)));
const seenCell = (n) => h(State, { level: n.stale ? "bad" : "" }, n.stale ? t("node.stale", { age: duration(n.seen_ms) }) : duration(n.seen_ms));

function Nodes({ nodes, version }) {
  return h(Table, { rows: order(nodes).map((n) => ({ ...n, class: problem(n) ? "flag" : undefined })), id: (n) => n.id, columns: [
    { label: t("node.name"), cell: (n) => [n.name, nodes.filter((x) => x.name === n.name).length > 1 && h("span", { class: "muted" }, ":" + n.pid), n.self && h("span", { class: "muted" }, " " + t("node.self")), n.problem && h("span", { class: "problem" }, n.problem)] },
    { label: t("node.version"), cell: (n) => versionCell(n, version, "node.file") },
    { label: t("node.store"), cell: (n) => h(State, { level: { down: "bad", slow: "warn" }[n.store?.state] }, n.store?.state === "up" ? t("unit.ms", { n: ms(n.store.ms) }) : word("store", n.store?.state)) },
    { label: t("node.mode"), cell: (n) => h(State, { level: { normal: "", local: "warn" }[n.mode] ?? "bad" }, word("mode", n.mode)) },
    { label: t("node.seen"), num: true, cell: seenCell }] });
}

function Programs({ programs, version }) {
  return h(Table, { rows: order(programs ?? []).map((n) => ({ ...n, class: problem(n) ? "flag" : undefined })), id: (n) => n.id, empty: t("programs.empty"), columns: [
    { label: t("program.service"), cell: (n) => [n.functions ? h("a", { href: link("functions", { q: n.service }) }, n.service) : n.service, h("span", { class: "muted" }, ` ${n.host}:${n.pid}`), n.version && !n.adjusts ? h("span", { class: "problem" }, t("program.notAdjusting")) : null, n.problem && h("span", { class: "problem" }, n.problem)] },
    { label: t("node.version"), cell: (n) => versionCell(n, version, "program.own") },
    { label: t("program.functions"), num: true, cell: (n) => n.functions || "–" },
    { label: t("node.seen"), num: true, cell: seenCell }] });
}

mount("overview", Overview);
