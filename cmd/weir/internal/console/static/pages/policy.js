import { h, Fragment } from "../lib/preact.js";
import { useEffect, useMemo, useRef, useState } from "../lib/hooks.js";
import { get, policyPath } from "../api.js";
import { Chart, Histogram } from "../chart.js";
import { Range, mount, seconds } from "../frame.js";
import { count, duration, range, rate, share, t } from "../i18n.js";
import { live, useLive } from "../live.js";
import { Fault, Table, brief, keyText, limitsText, link, query, setQuery, useDelayed, useQuery } from "../ui.js";
import { Mode } from "./policies.js";

const name = query("name");

function Policy() {
  useLive();
  const [span, setSpan] = useQuery("range", "10m");
  const series = live.series.get(name);
  const p = live.overview?.policies.find((x) => x.name === name);
  if (live.overview && !p) return h(Fragment, null, h("h1", null, t("nav.policy")), h("p", { class: "fault" }, t("policy.unknown", { name })), h("p", null, h("a", { href: "policies" }, t("nav.policies"))));
  if (!p) return h(Fragment, null, h("h1", null, name), h("p", { class: "empty" }, t("live.connecting")));
  const lines = [
    { name: "admitted", label: t("count.admitted"), color: "admitted" },
    { name: "denied", label: t("count.denied"), color: "denied" },
    ...(p.mode === "shadow" ? [{ name: "shadow", label: t("count.shadow"), color: "shadow" }] : []),
    ...(p.candidate?.length ? [{ name: "candidate", label: t("count.candidate"), color: "shadow", dash: true }] : []),
  ];
  return h(Fragment, null,
    h("div", { class: "heading" },
      h("h1", null, name),
      h("span", { class: "facts" },
        h("span", null, h(Mode, { policy: p })),
        h("span", null, t("policy.by", { limits: limitsText(p.limits), key: (p.key ?? []).join(", ") })),
        p.programs && h("span", null, t("policy.programs", { rate: rate(p.programs.rate), denied: rate(p.programs.denied) })),
        p.candidate?.length ? h("span", null, t("policy.candidateIs", { limits: limitsText(p.candidate) })) : null),
      h("span", { class: "actions" },
        h("a", { class: "button", href: link("try", { policy: name }) }, t("nav.try")),
        h("a", { class: "button", href: link("edit", { policy: name }) }, t("nav.edit")),
        h(Range, { value: span, onChange: setSpan }))),
    h(Chart, { title: t("policy.chart"), unit: t("unit.perSecond"), series, lines, seconds: seconds(span), versions: live.versions, height: 220 }),
    p.candidate?.length ? h(Candidate, { policy: p, series, n: seconds(span) }) : null,
    h(Threshold, { policy: p }),
    h(Keys, { policy: p }));
}

const sum = (values) => values.reduce((a, b) => a + (b ?? 0), 0);

// Candidate compares the candidate with the limits in force.
function Candidate({ policy, series, n }) {
  const window = (c) => sum(series.values[c].slice(-n));
  const denied = window("denied"), candidate = window("candidate"), all = window("admitted") + denied;
  return h("section", null, h("h2", null, t("count.candidate"), h("span", { class: "muted" }, " " + t("candidate.window", { time: duration(n * 1000) }))),
    h(Table, { id: (r) => r.what, wide: true, columns: [
      { label: t("policy.limits"), cell: (r) => limitsText(r.limits) },
      { label: t("candidate.what"), cell: (r) => r.what },
      { label: t("count.denied"), num: true, cell: (r) => count(r.n) },
      { label: t("policy.denied"), num: true, cell: (r) => share(all ? r.n / all : 0) }],
    rows: [{ what: t("candidate.current"), limits: policy.limits, n: denied }, { what: t("candidate.would"), limits: policy.candidate, n: candidate }] }));
}

// steps are the values of the slider: about twenty for each power of ten.
const steps = (() => {
  const list = [];
  for (let e = 0; e <= 5; e++) {
    for (const m of [1, 1.1, 1.2, 1.4, 1.5, 1.7, 1.9, 2, 2.4, 2.7, 3, 3.4, 3.8, 4, 4.8, 5, 6, 7, 8, 9]) {
      const v = Math.round(m * 10 ** e);
      if (v !== list.at(-1)) list.push(v);
    }
  }
  return [...list, 1e6];
})();

const periods = ["s", "m", "h", "24h"];

// parse reads "12/m burst 20"; periods other than the four keep their text.
function parse(limit) {
  const m = /^(\d+)\/(\S+)(?:.*?burst (\d+))?/.exec(brief(limit ?? ""));
  return m ? { n: Number(m[1]), period: m[2].replace(/^1(?=[a-z])/, ""), burst: m[3] ?? "" } : { n: 10, period: "s", burst: "" };
}

const nearest = (n) => steps.reduce((best, v, i) => (Math.abs(Math.log(v / n)) < Math.abs(Math.log(steps[best] / n)) ? i : best), 0);
const format = ({ n, period, burst }) => `${n}/${period}` + (burst ? ` burst ${burst}` : "");

function Threshold({ policy }) {
  const [value, setValue] = useState(() => parse(query("threshold") || policy.limits[0]));
  const limit = format(value);
  const late = useDelayed(limit, 200);
  const [answer, setAnswer] = useState(null);
  const [error, setError] = useState(null);
  const again = useMinute(5);
  const first = useRef(true);
  const units = useMemo(() => [...new Set([...periods, value.period])], []);
  const ready = value.n > 0;
  useEffect(() => {
    if (!ready) return undefined;
    if (!first.current) setQuery("threshold", late);
    first.current = false;
    const abort = new AbortController();
    get(policyPath(policy.name, "threshold?limit=" + encodeURIComponent(late)), abort.signal)
      .then((a) => { setAnswer(a); setError(null); }, (e) => e.name !== "AbortError" && setError(e));
    return () => abort.abort();
  }, [late, again, ready]);
  const set = (change) => setValue((v) => ({ ...v, ...change }));
  const onKey = (e) => {
    const by = { PageUp: 10, PageDown: -10 }[e.key];
    if (!by) return;
    e.preventDefault();
    set({ n: steps[Math.max(0, Math.min(steps.length - 1, nearest(value.n) + by))] });
  };
  return h("section", { class: "threshold", "aria-labelledby": "threshold" },
    h("h2", { id: "threshold" }, t("threshold.title"), h("span", { class: "muted" }, " " + t("threshold.what"))),
    h("div", { class: "slider" },
      h("input", { type: "range", min: 0, max: steps.length - 1, step: 1, value: nearest(Math.max(1, value.n)), "aria-label": t("threshold.title"), "aria-valuetext": limit, "aria-describedby": "estimate",
        onKeyDown: onKey, onInput: (e) => set({ n: steps[Number(e.target.value)] }) }),
      h("div", { class: "form" },
        h("label", null, t("threshold.count"), h("input", { type: "number", min: 1, max: 1e7, value: value.n, "aria-invalid": String(!ready), onInput: (e) => set({ n: Math.floor(Number(e.target.value)) }) })),
        h("label", null, t("threshold.per"), h("select", { value: value.period, onChange: (e) => set({ period: e.target.value }) }, units.map((u) => h("option", { key: u, value: u }, unit(u))))),
        h("label", null, t("threshold.burst"), h("input", { type: "number", min: 1, max: 1e7, value: value.burst, placeholder: String(value.n), onInput: (e) => set({ burst: e.target.value }) })),
        h("a", { class: "button", href: link("edit", { policy: policy.name, limits: limitsText([limit, ...policy.limits.slice(1)]) }) }, t("threshold.use")))),
    h(Fault, { error }),
    h("div", { class: "estimate", id: "estimate", "aria-live": "polite" }, answer && !error && h(Estimate, { answer })),
    answer?.histogram?.length > 1 && !error ? h(Histogram, { title: t("histogram.title"), unit: t("threshold.perUnit", { unit: unit(value.period) }), buckets: answer.histogram, at: value.n }) : null);
}

const unit = (u) => (periods.includes(u) ? t("period." + u) : u);

// useMinute returns a number that grows every n seconds while the page is live.
function useMinute(n) {
  const [x, set] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => { if (live.state === "live") set((v) => v + 1); }, n * 1000);
    return () => clearInterval(timer);
  }, []);
  return x;
}

// Estimate says in words what the threshold would do.
function Estimate({ answer: a }) {
  if (!a.enough) return h("p", { class: "muted" }, t("threshold.notEnough"), a.reason ? ` (${a.reason})` : "");
  const part = ([lo, hi], total) => share(total ? (lo + hi) / 2 / total : 0);
  const keys = (a.keys_total[0] + a.keys_total[1]) / 2;
  return h(Fragment, null,
    h("p", null, h("strong", null, t("threshold.would", { keys: range(a.keys), keyShare: part(a.keys, keys), requests: range(a.requests), requestShare: part(a.requests, a.requests_total), time: duration(1000 * (a.window_s ?? 600)) })),
      " ", a.now && t("threshold.now", { keys: range(a.now.keys), requests: range(a.now.requests) })),
    h("p", { class: "muted small" }, a.exact_above ? t("threshold.exact", { n: count(a.exact_above) }) : t("threshold.counted"), " ", t("threshold.coverage", { share: share(a.coverage) }), " ", t("threshold.caveat")));
}

function Keys({ policy }) {
  const [loaded, setLoaded] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    get(policyPath(policy.name, "keys")).then(setLoaded, setError);
  }, []);
  const top = live.top?.policy === policy.name ? live.top : loaded;
  const columns = (what) => [
    { label: t("key.key"), cell: (k) => h("a", { href: link("key", { policy: policy.name, id: k.id }), title: keyText(k) }, h("span", { class: "mono" }, short(keyText(k)))) },
    { label: what, num: true, cell: (k) => count(k.count) },
    { label: t("top.error"), num: true, cell: (k) => count(k.error) }];
  return h(Fragment, null,
    h(Fault, { error }),
    h("div", { class: "columns" },
      h("section", null, h("h2", null, t("top.denied")), h(Table, { wide: true, columns: columns(t("count.denied")), rows: top?.denied, id: (k) => k.id, empty: top ? t("top.noneDenied") : t("live.connecting") })),
      h("section", null, h("h2", null, t("top.requests")), h(Table, { wide: true, columns: columns(t("top.count")), rows: top?.requests, id: (k) => k.id, empty: top ? t("top.none") : t("live.connecting") }))),
    top && h("p", { class: "muted small" }, t("top.note", { time: duration(top.window_s * 1000), bound: count(top.bound), coverage: share(top.coverage) })));
}

const short = (text) => (text.length > 64 ? text.slice(0, 60) + "…" : text);

mount("policies", Policy, { policy: name, title: name });
