import { h, Fragment } from "../lib/preact.js";
import { useState } from "../lib/hooks.js";
import { post } from "../api.js";
import { mount, operates } from "../frame.js";
import { count, duration, t, word } from "../i18n.js";
import { Fault, State, Table, brief, link, query, storedDraft } from "../ui.js";

function Try() {
  const [q, setQ] = useState({ method: "GET", url: "/", ip: "", headers: [] });
  const [answer, setAnswer] = useState(null);
  const [error, setError] = useState(null);
  const [draft] = useState(() => (operates() ? storedDraft() : null));
  const [both, setBoth] = useState(true);
  const set = (change) => setQ({ ...q, ...change });
  const header = (i, change) => set({ headers: q.headers.map((x, j) => (j === i ? { ...x, ...change } : x)) });
  const submit = async (e) => {
    e.preventDefault();
    const headers = {};
    for (const { name, value } of q.headers) if (name.trim()) headers[name.trim()] = [...(headers[name.trim()] ?? []), value];
    try {
      setAnswer(await post("/v1/explain", { method: q.method, url: q.url, client_ip: q.ip || undefined, headers, draft: draft && both ? draft.text : undefined }));
      setError(null);
    } catch (err) {
      setAnswer(null);
      setError(err);
    }
  };
  return h(Fragment, null,
    h("div", { class: "heading" }, h("h1", null, t("nav.try")), h("span", { class: "muted" }, t("try.what"))),
    h("form", { onSubmit: submit, autocomplete: "off" },
      h("div", { class: "form" },
        h("label", null, t("try.method"), h("input", { list: "methods", size: 8, value: q.method, required: true, onInput: (e) => set({ method: e.target.value.toUpperCase() }) })),
        h("datalist", { id: "methods" }, ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH"].map((m) => h("option", { key: m, value: m }))),
        h("label", { class: "grow" }, t("try.url"), h("input", { value: q.url, required: true, spellcheck: false, "data-search": "", onInput: (e) => set({ url: e.target.value }) })),
        h("label", null, t("try.ip"), h("input", { value: q.ip, size: 18, placeholder: "203.0.113.9", spellcheck: false, onInput: (e) => set({ ip: e.target.value }) })),
        h("button", { type: "button", onClick: () => set({ headers: [...q.headers, { name: "", value: "" }] }) }, t("try.addHeader")),
        h("button", { class: "primary" }, t("nav.try"))),
      q.headers.map((x, i) => h("div", { class: "form", key: i },
        h("label", null, t("try.headerName"), h("input", { value: x.name, spellcheck: false, onInput: (e) => header(i, { name: e.target.value }) })),
        h("label", { class: "grow" }, t("try.headerValue"), h("input", { value: x.value, spellcheck: false, onInput: (e) => header(i, { value: e.target.value }) })),
        h("button", { type: "button", onClick: () => set({ headers: q.headers.filter((_, j) => j !== i) }) }, t("try.removeHeader"))))),
    draft
      ? h("label", { class: "check" }, h("input", { type: "checkbox", checked: both, onChange: (e) => { setBoth(e.target.checked); setAnswer(null); } }), t("try.withDraft", { version: draft.base }), " ", h("a", { href: "edit" }, t("nav.edit")))
      : operates() && h("p", { class: "muted" }, t("try.noDraft"), " ", h("a", { href: "edit" }, t("nav.edit"))),
    h(Fault, { error }),
    answer && (answer.draft
      ? h("div", { class: "columns" },
        h("section", { "aria-label": t("try.inForce") }, h("h2", null, t("try.inForce")), h(Answer, { answer })),
        h("section", { "aria-label": t("try.draft") }, h("h2", null, t("try.draft")), h(Answer, { answer: answer.draft })))
      : h(Answer, { answer })));
}

// keyOf reads the parts of a key in the store: "login|9:127.0.0.1" has one, of nine bytes.
function keyOf(key) {
  if (!key) return "–";
  const parts = [];
  let bytes = new TextEncoder().encode(key.slice(key.indexOf("|") + 1));
  while (bytes.length) {
    const colon = bytes.indexOf(58);
    const n = Number(new TextDecoder().decode(bytes.slice(0, colon)));
    if (colon < 1 || !Number.isInteger(n) || colon + 1 + n > bytes.length) return key;
    parts.push(new TextDecoder().decode(bytes.slice(colon + 1, colon + 1 + n)));
    bytes = bytes.slice(colon + 1 + n);
  }
  return parts.join(" · ") || key;
}

const level = { admitted: "ok", unlimited: "ok", denied: "bad", overloaded: "bad", undecided: "warn" };

function Answer({ answer: a }) {
  const d = a.denial;
  const wanted = query("policy");
  const policies = [...a.policies].sort((x, y) => Number(y.policy === wanted) - Number(x.policy === wanted) || Number(y.matched) - Number(x.matched));
  return h(Fragment, null,
    h("div", { class: "verdict " + (level[a.verdict] ?? "warn"), role: "status" },
      h("strong", null, d ? t("try.deniedBy", { policy: d.policy, status: d.status }) : word("verdict", a.verdict)),
      d && (d.never ? " " + t("try.never") : d.retry_after != null ? " " + t("try.retryAfter", { time: duration(1000 * d.retry_after) }) : ""),
      a.delay ? " " + t("try.delay", { time: duration(1000 * a.delay) }) : "",
      " ", h("span", { class: "muted" }, t("try.nothing"))),
    a.unused && h("p", { class: "note" }, t("try.unused")),
    h(Table, { id: (p) => p.policy, rows: policies, columns: [
      { label: t("policy.name"), cell: (p) => [h("a", { href: link("policy", { name: p.policy.replace(/~candidate$/, "") }) }, p.policy), p.mode !== "enforce" && h("span", { class: "muted" }, " " + word("policyMode", p.mode))] },
      { label: t("try.matched"), cell: (p) => h(State, { level: p.matched ? "" : "warn" }, p.matched ? t("try.yes") : t("try.skipped")) },
      { label: t("key.key"), cell: (p) => h("span", { class: "mono" }, keyOf(p.key)) },
      { label: t("try.result"), cell: (p) => (p.matched ? [p.problem && h("span", { class: "problem" }, p.problem), ...(p.blocks ? [h(State, { level: "bad" }, t("try.blocks"))] : []),
        ...(p.limits ?? []).map((l) => h("div", { key: l.limit }, brief(l.limit), ": ", h(State, { level: l.ok ? "ok" : "bad" }, t("key.of", { n: count(l.remaining), of: count(l.capacity) }), l.decides ? " · " + t("try.decides") : "")))]
        : h("span", { class: "muted" }, p.why)) }] }));
}

mount("try", Try);
