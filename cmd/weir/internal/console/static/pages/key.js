import { h, Fragment } from "../lib/preact.js";
import { useEffect, useRef, useState } from "../lib/hooks.js";
import { post } from "../api.js";
import { blocked, mount, operates } from "../frame.js";
import { clock, count, duration, moment, t, word } from "../i18n.js";
import { live, useLive } from "../live.js";
import { Dialog, Fault, State, Table, Trend, brief, keyText, limitsText, link, query, setQuery } from "../ui.js";

function Key() {
  useLive();
  const [policy, setPolicy] = useState(query("policy"));
  const [parts, setParts] = useState([""]);
  const [asked, ask] = useState(query("id") ? { id: query("id"), policy: query("policy") || undefined } : null);
  const [result, setResult] = useState(null);
  const [error, setError] = useState(null);
  const [action, setAction] = useState(null); // {kind, state}
  const [done, setDone] = useState("");
  const policies = live.overview?.policies ?? [];
  const sources = policies.find((p) => p.name === policy)?.key ?? [];
  const inputs = Math.max(1, policy ? sources.length : parts.length);
  const asking = useRef(null);

  const load = async () => {
    asking.current?.abort();
    if (!asked) return;
    const abort = (asking.current = new AbortController());
    try {
      const found = await post("/v1/key", asked, abort.signal);
      setResult(found);
      setError(null);
      const id = found.policies[0]?.id;
      if (asked.policy) setQuery("policy", asked.policy);
      if (asked.policy && id) setQuery("id", id); // links and reloads work by the hash, not by the key
      else setQuery("id", "");
    } catch (e) {
      if (e.name === "AbortError") return;
      setError(e);
      if (e.status >= 400 && e.status < 500) setResult(null);
    }
  };
  useEffect(() => {
    load();
    const timer = setInterval(() => { if (!document.hidden && live.state !== "paused") load(); }, 1000);
    return () => { clearInterval(timer); asking.current?.abort(); };
  }, [asked]);

  const submit = (e) => {
    e.preventDefault();
    setDone("");
    ask({ key: parts.slice(0, inputs), policy: policy || undefined });
  };
  return h(Fragment, null,
    h("div", { class: "heading" }, h("h1", null, t("nav.key"))),
    operates() && h("form", { class: "form", onSubmit: submit, autocomplete: "off" },
      h("label", null, t("policy.name"), h("select", { value: policy, onChange: (e) => setPolicy(e.target.value) },
        h("option", { value: "" }, t("filter.any")), policies.map((p) => h("option", { key: p.name, value: p.name }, p.name)),
        policy && !policies.some((p) => p.name === policy) ? h("option", { value: policy }, policy) : null)),
      Array.from({ length: inputs }, (_, i) => h("label", { class: "grow", key: i }, sources[i] ? t("key.part", { source: sources[i] }) : t("key.enter"),
        h("input", { type: "text", value: parts[i] ?? "", required: true, maxlength: 4096, spellcheck: false, autocomplete: "off", "data-search": i === 0 ? "" : undefined,
          onInput: (e) => setParts(Array.from({ length: Math.max(inputs, parts.length) }, (_, j) => (j === i ? e.target.value : parts[j] ?? ""))) }))),
      !policy && h("button", { type: "button", class: "plain", onClick: () => setParts(parts.length < 8 ? [...parts, ""] : parts) }, t("key.addPart")),
      !policy && parts.length > 1 && h("button", { type: "button", class: "plain", onClick: () => setParts(parts.slice(0, -1)) }, t("key.removePart")),
      h("button", { class: "primary" }, t("key.show"))),
    h(Fault, { error }),
    done && h("p", { class: "done", role: "status" }, done),
    !asked && h("p", { class: "muted" }, t(operates() ? "key.hint" : "key.byLink")),
    result && !result.policies.length && h("p", { class: "empty" }, t("key.none")),
    result && [...result.policies].sort((a, b) => Number(b.denied) - Number(a.denied)).map((s) =>
      h(OfPolicy, { key: s.policy, state: s, onAction: (kind) => { setDone(""); setAction({ kind, state: s }); } })),
    result?.more ? h("p", { class: "muted" }, t("key.more", { n: result.more })) : null,
    action && h(ActionDialog, { ...action, onClose: (text) => { setAction(null); if (text) setDone(text); load(); } }));
}

const actions = ["credit", "reset", "raise", "freeze", "block"];

// OfPolicy shows the state of the key in one policy.
function OfPolicy({ state: s, onAction }) {
  const why = blocked();
  const a = s.adjustment;
  return h("section", { "aria-label": s.policy },
    h("div", { class: "verdict " + (s.denied ? (s.mode === "enforce" ? "bad" : "warn") : "ok") },
      h("strong", null, verdict(s)), " ",
      h("span", { class: "muted" }, h("a", { href: link("policy", { name: s.policy }) }, s.policy), " · ", h("span", { class: "mono" }, keyText(s)), s.mode !== "enforce" ? " · " + word("policyMode", s.mode) : "")),
    a && h("p", null, h(State, { level: "warn" }, word("adjustment", a.kind)), a.limits?.length ? " " + limitsText(a.limits) : "", " ",
      a.until ? t("key.until", { time: moment(a.until) }) : t("key.untilLifted"), " · ", t("key.by", { by: a.by, reason: a.reason }), " ",
      h("button", { type: "button", disabled: Boolean(why), onClick: () => onAction("lift") }, t("action.lift"))),
    h("div", { class: "columns wide-left" },
      h(Table, { rows: s.states ?? [], empty: s.problem || t("key.noStates"), id: (l) => l.limit, columns: [
        { label: t("policy.limits"), cell: (l) => brief(l.limit) },
        { label: t("key.remaining"), cell: (l) => [
          h("span", { class: l.remaining <= 0 ? "meter low" : "meter", "aria-hidden": "true" }, h("span", { style: { width: Math.max(0, Math.min(100, (100 * l.remaining) / (l.capacity || 1))) + "%" } })),
          t("key.of", { n: count(l.remaining), of: count(l.capacity) }), l.debt ? h("span", { class: "problem" }, t("key.debt", { n: count(l.debt) })) : null] },
        { label: t("key.full"), num: true, cell: (l) => duration(l.reset_after_ms) },
        { label: t("key.state"), cell: (l) => h(State, { level: l.ok ? "ok" : "bad" }, l.ok ? t("key.ok") : t("count.denied")) }] }),
      s.history?.length ? h(History, { history: s.history }) : h("p", { class: "muted small" }, t("key.noHistory"))),
    h("div", { class: "actions" }, actions.map((kind) => h("button", { key: kind, type: "button", disabled: Boolean(why), onClick: () => onAction(kind) }, t("action." + kind))),
      why && h("span", { class: "muted" }, why)));
}

function verdict(s) {
  const by = brief((s.states ?? []).find((l) => !l.ok)?.limit ?? s.policy);
  if (!s.denied) return t("key.admitted");
  if (s.adjustment?.kind === "freeze") return t("key.frozen");
  if (s.adjustment?.kind === "block") return t("key.blocked", { time: moment(s.adjustment.until ?? s.until) });
  if (s.retry_after_ms == null) return t("key.deniedBy", { policy: s.policy, limit: by }) + " " + t("try.never");
  return t("key.deniedBy", { policy: s.policy, limit: by }) + " " + t("key.next", { time: duration(s.retry_after_ms), at: s.until ? clock(s.until, true) : clock(Date.now() / 1000 + s.retry_after_ms / 1000, true) });
}

// History shows the requests of the last minutes in steps of ten seconds, and those of them that
// were denied.
function History({ history }) {
  const [table, setTable] = useState(false);
  const sum = (name) => count(history.reduce((a, x) => a + (x[name] ?? 0), 0));
  const label = t("key.history", { requests: sum("requests"), denied: sum("denied"), time: duration(1000 * (history.length > 1 ? history.length * (history[1].t - history[0].t) : 10)) });
  return h("div", null, h("p", { class: "small" }, h("span", { class: "muted" }, label), " ",
    h("button", { type: "button", class: "plain small", "aria-pressed": String(table), onClick: () => setTable(!table) }, table ? t("chart.chart") : t("chart.table"))),
  table
    ? h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, h(Table, { wide: true, rows: [...history].reverse(), id: (x) => x.t, columns: [
      { label: t("chart.time"), cell: (x) => clock(x.t) }, { label: t("top.count"), num: true, cell: (x) => count(x.requests) },
      { label: t("key.deniedCount"), num: true, cell: (x) => h("span", { class: x.denied > 0 ? "denied" : undefined }, count(x.denied ?? 0)) }] }))
    : h("div", { class: "wide-trend" }, h(Trend, { values: history.map((x) => x.requests), denied: history.map((x) => x.denied ?? 0), label }),
      h("p", { class: "legend small" }, [["admitted dash", "top.count"], ["denied", "key.deniedCount"]].map(([line, text]) => h("span", { class: "key", key: text },
        h("svg", { width: 14, height: 8, "aria-hidden": "true" }, h("line", { x1: 0, x2: 14, y1: 4, y2: 4, class: "line " + line })), t(text))))));
}

// after says what an action is going to do, in the words of the state.
function after(kind, s, f) {
  const first = (s.states ?? []).find((l) => !l.ok) ?? s.states?.[0];
  const of = (n) => t("key.of", { n: count(n), of: count(first?.capacity) });
  switch (kind) {
    case "credit": return first ? `${brief(first.limit)}: ${of(Math.min(first.capacity, Math.max(0, first.remaining - (first.debt ?? 0) + (Number(f.tokens) || 0))))}` : "–";
    case "reset": return first ? `${brief(first.limit)}: ${of(first.capacity)}` : "–";
    case "raise": return `${f.limits || "–"}, ${t("key.until", { time: moment(ends(f)) })}`;
    case "freeze": return t("key.frozen");
    case "block": return t("key.blocked", { time: moment(ends(f)) });
    default: return t("action.lifted");
  }
}

const ends = (f) => new Date(Date.now() + (Number(f.minutes) || 0) * 60000);

function before(s) {
  if (s.adjustment) return word("adjustment", s.adjustment.kind) + (s.adjustment.limits?.length ? " " + limitsText(s.adjustment.limits) : "");
  const first = (s.states ?? []).find((l) => !l.ok) ?? s.states?.[0];
  return first ? `${brief(first.limit)}: ${t("key.of", { n: count(first.remaining), of: count(first.capacity) })}` : "–";
}

function ActionDialog({ kind, state: s, onClose }) {
  const [f, setF] = useState({ tokens: 10, minutes: 60, limits: limitsText(s.adjustment?.limits ?? (s.states ?? []).map((l) => l.limit)), reason: "" });
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const field = (name, label, props) => h("label", { class: "grow" }, label, h("input", { value: f[name], onInput: (e) => setF({ ...f, [name]: e.target.value }), ...props }));
  const run = async (e) => {
    e.preventDefault();
    setBusy(true);
    setError(null);
    const body = { policy: s.policy, reason: f.reason.trim(), ...(s.key ? { key: s.key } : { id: s.id }) };
    if (kind === "credit") body.tokens = Number(f.tokens);
    if (kind === "raise") body.limits = f.limits.split(",").map((x) => x.trim()).filter(Boolean);
    if (kind === "raise" || kind === "block") body.for = f.minutes + "m";
    try {
      const { notes, not_applied_by: others } = await post("/v1/key/" + kind, body);
      onClose([t("action.done", { action: t("action." + kind), policy: s.policy }), ...(notes ?? []), others?.length ? t("action.notBy", { names: others.join(", ") }) : ""].filter(Boolean).join(" "));
    } catch (err) {
      setError(err);
      setBusy(false);
    }
  };
  return h(Dialog, { title: `${t("action." + kind)} · ${s.policy} · ${keyText(s)}`, onClose: () => onClose("") },
    h("p", { class: "muted" }, t("explain." + kind)),
    h("form", { onSubmit: run, autocomplete: "off" },
      h("div", { class: "form" },
        kind === "credit" && field("tokens", t("action.tokens"), { type: "number", min: 1, max: 1e9, required: true }),
        kind === "raise" && field("limits", t("action.limits"), { type: "text", required: true, spellcheck: false }),
        (kind === "raise" || kind === "block") && field("minutes", t("action.minutes"), { type: "number", min: 1, max: 525600, required: true })),
      h("div", { class: "form" }, field("reason", t("action.reason"), { type: "text", required: true, maxlength: 500, name: "reason" })),
      h("table", { class: "wide" }, h("tbody", null,
        h("tr", null, h("th", { scope: "row" }, t("action.before")), h("td", null, before(s))),
        h("tr", null, h("th", { scope: "row" }, t("action.after")), h("td", null, after(kind, s, f))))),
      h(Fault, { error }),
      h("div", { class: "actions" },
        h("button", { class: "primary", disabled: busy || !f.reason.trim() || Boolean(blocked()) }, t("action." + kind)),
        h("button", { type: "button", onClick: () => onClose("") }, t("dialog.cancel")))));
}

mount("key", Key);
