import { h, Fragment } from "../lib/preact.js";
import { mount } from "../frame.js";
import { rate, share, t, word } from "../i18n.js";
import { live, useLive } from "../live.js";
import { State, Table, Trend, limitsText, link, useQuery } from "../ui.js";

const columns = [
  { name: "name", label: t("policy.name"), sort: (p) => p.name, cell: (p) => h("a", { href: link("policy", { name: p.name }) }, p.name) },
  { name: "mode", label: t("policy.mode"), sort: (p) => p.mode, cell: (p) => h(Mode, { policy: p }) },
  { name: "key", label: t("policy.key"), cell: (p) => (p.key ?? []).join(", ") },
  { name: "limits", label: t("policy.limits"), cell: (p) => limitsText(p.limits) },
  { name: "candidate", label: t("policy.candidate"), cell: (p) => limitsText(p.candidate) || "–" },
  { name: "rate", label: t("policy.rate"), num: true, sort: (p) => p.rate, cell: (p) => rate(p.rate) },
  { name: "denied", label: t("policy.deniedRate"), num: true, sort: (p) => p.denied, cell: (p) => h("span", { class: p.denied > 0 ? "denied" : undefined }, rate(p.denied)) },
  { name: "share", label: t("policy.denied"), num: true, sort: (p) => p.denied_share, cell: (p) => share(p.denied_share) },
  { name: "shadow", label: t("count.shadow"), num: true, sort: (p) => p.shadow, cell: (p) => rate(p.shadow) },
  { name: "trend", label: t("policy.trend"), cell: (p) => h(Trend, { values: p.trend ?? [], label: t("policy.trendLabel", { n: rate(p.denied) }) }) },
];

export function Mode({ policy: p }) {
  return h(State, { level: p.mode === "enforce" ? "" : "warn" }, word("policyMode", p.mode), p.percent < 100 && p.percent > 0 ? ` ${p.percent}%` : "");
}

function Policies() {
  useLive();
  const [q, setQ] = useQuery("q", "");
  const [mode, setMode] = useQuery("mode", "");
  const [sort, setSort] = useQuery("sort", "denied-");
  const all = live.overview?.policies;
  const sorted = { name: sort.replace(/-$/, ""), down: sort.endsWith("-") };
  const by = columns.find((c) => c.name === sorted.name && c.sort) ?? columns[6];
  const rows = (all ?? []).filter((p) => (!mode || p.mode === mode) && (!q || [p.name, ...p.limits, ...(p.key ?? [])].some((x) => x.toLowerCase().includes(q.toLowerCase()))));
  rows.sort((a, b) => {
    const x = by.sort(a), y = by.sort(b);
    return (sorted.down ? -1 : 1) * (typeof x === "string" ? x.localeCompare(y) : x - y) || a.name.localeCompare(b.name);
  });
  const onSort = (name) => setSort(name === sorted.name && !sorted.down ? name + "-" : name === sorted.name ? name : name + (["name", "mode"].includes(name) ? "" : "-"));
  return h(Fragment, null,
    h("div", { class: "heading" }, h("h1", null, t("nav.policies")), all && h("span", { class: "muted" }, t("policies.count", { n: rows.length, all: all.length }))),
    h("div", { class: "form" },
      h("label", { class: "grow" }, t("policies.filter"), h("input", { type: "search", value: q, "data-search": "", autocomplete: "off", spellcheck: false, onInput: (e) => setQ(e.target.value) })),
      h("label", null, t("policy.mode"), h("select", { value: mode, onChange: (e) => setMode(e.target.value) },
        h("option", { value: "" }, t("filter.any")), ["enforce", "shadow", "off"].map((m) => h("option", { value: m, key: m }, word("policyMode", m)))))),
    !all ? h("p", { class: "empty" }, t("live.connecting"))
      : h(Table, { columns, rows, id: (p) => p.name, sorted, onSort, empty: all.length ? t("policies.none") : t("policies.empty") }));
}

if (location.pathname.endsWith("/policies")) mount("policies", Policies);
