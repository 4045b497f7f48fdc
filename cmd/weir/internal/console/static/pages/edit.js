import { h, Fragment } from "../lib/preact.js";
import { useEffect, useRef, useState } from "../lib/hooks.js";
import { get, policyPath, post } from "../api.js";
import { blocked, mount } from "../frame.js";
import { moment, range, t, word } from "../i18n.js";
import { live, useLive } from "../live.js";
import { Dialog, Fault, State, Switch, Table, limitsText, query, setQuery, storeDraft, storedDraft, useDelayed, useQuery } from "../ui.js";

function Edit() {
  useLive();
  const [view, setView] = useQuery("view", "edit");
  return h(Fragment, null,
    h("div", { class: "heading" }, h("h1", null, t("nav.edit")),
      h(Switch, { label: t("nav.edit"), value: view, onChange: (v) => { setQuery("version", ""); setView(v); }, options: [["edit", t("edit.draft")], ["versions", t("edit.versions")]] })),
    view === "versions" ? h(Versions) : h(Draft));
}

function Draft() {
  const [base, setBase] = useState(null); // {version, text, source}
  const [text, setText] = useState("");
  const [checked, setChecked] = useState(null); // the answer of /v1/draft, with its text
  const [error, setError] = useState(null);
  const [selected, select] = useState(query("policy"));
  const [conflict, setConflict] = useState(null);
  const [review, setReview] = useState(false);
  const [applied, setApplied] = useState(null);
  const area = useRef();
  const form = useRef({ last: Promise.resolve(), names: {} }); // its changes run one after the other; new names by those in the list
  const [changing, setChanging] = useState(0);
  const [wanted, want] = useState(false); // a review, as soon as the draft is checked
  const latest = useRef("");
  latest.current = text;
  const late = useDelayed(text, 300);

  // begin loads the text in force, and keeps a draft of this tab.
  const begin = async (fresh) => {
    try {
      const now = await get("/v1/text");
      const draft = fresh ? null : storedDraft();
      const from = draft?.base ? { version: draft.base, text: draft.baseText } : now;
      setBase({ ...now, ...from });
      setError(null);
      let start = draft?.text ?? now.text;
      const limits = query("limits");
      const of = query("function") ? { function: query("function") } : { policy: query("policy") };
      if (limits && (of.function || of.policy) && !fresh) {
        start = (await post("/v1/draft/set", { text: start, ...of, field: "limits", value: limits.split(",").map((x) => x.trim()) })).text;
        setQuery("limits", "");
        setQuery("function", "");
      }
      setText(start);
    } catch (e) {
      setError(e);
    }
  };
  useEffect(() => { begin(false); }, []);
  useEffect(() => {
    if (!base) return undefined;
    storeDraft(text === base.text ? null : { text, base: base.version, baseText: base.text });
    const abort = new AbortController();
    post("/v1/draft", { text: late, base: base.version }, abort.signal).then((a) => {
      setChecked({ ...a, of: late });
      setError(null);
    }, (e) => e.name !== "AbortError" && setError(e));
    return () => abort.abort();
  }, [late, base]);
  useEffect(() => {
    if (base) storeDraft(text === base.text ? null : { text, base: base.version, baseText: base.text });
  }, [text]);

  const changed = base && text !== base.text;
  const fresh = checked && checked.of === text;
  const ready = changed && fresh && checked.valid && !changing;
  const open = () => (ready ? setReview(true) : want(changing > 0));
  useEffect(() => { if (fresh && !changing) form.current.names = {}; }, [fresh, changing]);
  useEffect(() => {
    if (!wanted || changing || !fresh) return;
    want(false);
    if (ready) setReview(true);
  }, [wanted, changing, fresh, ready]);
  useEffect(() => {
    const onKey = (e) => {
      if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && !document.querySelector("dialog[open]")) {
        e.preventDefault();
        document.querySelector('[aria-keyshortcuts="Control+Enter"]')?.click(); // as it is now: it may be disabled
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);

  // change edits the YAML by the server. The user may go on while it runs: a change begins with the
  // text of the one before it, and with the name that it gave to the policy.
  const change = (q, then) => {
    const f = form.current;
    setChanging((n) => n + 1);
    f.last = f.last.then(async () => {
      const policy = f.names[q.policy] ?? q.policy;
      try {
        const { text: to } = await post("/v1/draft/set", { text: latest.current, ...q, policy });
        latest.current = to;
        setText(to);
        if (q.field === "name") f.names[q.policy] = q.value;
        if (then != null) {
          select(then);
          setQuery("policy", then);
        }
        setError(null);
      } catch (e) {
        setError(e);
      }
      setChanging((n) => n - 1);
    });
  };
  const set = (policy, field, value) => change({ policy, field, value }, field === "name" ? value : undefined);
  const add = () => {
    const names = (checked?.policies ?? []).map((p) => p.name);
    let n = 1;
    while (names.includes("policy-" + n)) n++;
    change({ policy: "policy-" + n, action: "add", value: { match: "/new/*", key: ["client.ip"], limits: ["10/s"], mode: "shadow" } }, "policy-" + n);
  };
  const remove = (policy) => change({ policy, action: "delete" }, "");
  const goTo = ({ line, column }) => {
    const el = area.current;
    const lines = text.split("\n");
    const at = lines.slice(0, line - 1).reduce((n, l) => n + l.length + 1, 0) + Math.max(0, (column || 1) - 1);
    el.focus();
    el.setSelectionRange(at, at + (lines[line - 1]?.length ?? 0) - Math.max(0, (column || 1) - 1));
    el.scrollTop = Math.max(0, (line - 5) * 20);
  };
  if (!base && error?.status === 403) return h("p", { class: "note" }, blocked() || error.message);
  if (!base) return h(Fragment, null, h(Fault, { error }), !error && h("p", { class: "empty" }, t("live.connecting")));
  const why = blocked();
  const newer = live.overview?.version > base.version;
  return h(Fragment, null,
    h("p", { class: "facts" }, h("span", null, t("edit.base", { version: base.version })), h("span", null, base.source ?? ""),
      changed && h("span", null, t("edit.changed")),
      newer && h(State, { level: "warn" }, t("edit.newer", { version: live.overview.version })),
      (changed || newer) && h("button", { type: "button", class: "plain", onClick: () => { storeDraft(null); setApplied(null); begin(true); } }, t("edit.discard"))),
    base.note && h("p", { class: "note" }, base.note),
    h("div", { class: "editor" },
      h(Fields, { policies: checked?.policies ?? [], selected, onSelect: (name) => { select(name); setQuery("policy", name); }, onSet: set, onAdd: add, onDelete: remove }),
      h("div", null,
        h("h2", { id: "yaml" }, "YAML"),
        h(Yaml, { area, text, onText: setText, faults: fresh ? checked.faults ?? [] : [] }),
        h("div", { "aria-live": "polite", id: "validity" },
          !fresh ? h("p", { class: "muted small" }, t("edit.checking"))
            : checked.valid ? h("p", { class: "small" }, h(State, { level: "ok" }, t("edit.valid")))
              : h("ul", { class: "faults" }, (checked.faults ?? []).map((f, i) => h("li", { key: i },
                f.line ? h("button", { type: "button", class: "plain", onClick: () => goTo(f) }, `${f.line}:${f.column ?? 1}`) : null, " ", faultText(f))))),
        h(Fault, { error }),
        h("div", { class: "actions" },
          h("button", { type: "button", class: "primary", disabled: !(ready || changing > 0) || Boolean(why), onClick: open, "aria-keyshortcuts": "Control+Enter" }, t("edit.review")),
          h("span", { class: "muted" }, why || (!changed ? t("edit.unchanged") : !fresh ? "" : checked.valid ? "" : t("edit.disabled")))),
        applied && h(Applied, { applied }))),
    changed && fresh && checked.diff ? h("section", null, h("h2", null, t("edit.diff")), h(Diff, { lines: checked.diff })) : null,
    review && h(Review, { base, text, checked, onClose: () => setReview(false),
      onApplied: async (answer) => { setReview(false); storeDraft(null); setApplied({ ...answer, since: Date.now() }); await begin(true); },
      onConflict: (c) => { setReview(false); setConflict(c); } }),
    conflict && h(Conflict, { base, text, theirs: conflict, onClose: (choice) => {
      setConflict(null);
      if (choice === "theirs") begin(true).then(() => storeDraft(null));
      if (choice === "mine") setBase({ ...base, version: conflict.current, text: conflict.text });
    } }));
}

const faultText = (f) => f.message || `${f.field}: ${t("error.got")} ${f.value || "–"}, ${t("error.want")} ${f.expected}`;

// Yaml is a text area with line numbers that scroll with it.
function Yaml({ area, text, onText, faults }) {
  const gutter = useRef();
  const bad = new Set(faults.map((f) => f.line));
  const lines = text.split("\n").length;
  return h("div", { class: "yaml" },
    h("div", { class: "gutter", ref: gutter, "aria-hidden": "true" }, Array.from({ length: lines }, (_, i) => h("div", { key: i, class: bad.has(i + 1) ? "bad" : undefined }, (bad.has(i + 1) ? "! " : "") + (i + 1)))),
    h("textarea", { ref: area, value: text, spellcheck: false, wrap: "off", autocapitalize: "off", "aria-labelledby": "yaml", "aria-describedby": "validity", "aria-invalid": String(bad.size > 0),
      onInput: (e) => onText(e.target.value), onScroll: (e) => { gutter.current.scrollTop = e.target.scrollTop; } }));
}

// Fields is the form of one policy. Each change edits the YAML and keeps its comments.
function Fields({ policies, selected, onSelect, onSet, onAdd, onDelete }) {
  const at = useRef(0);
  const found = policies.findIndex((x) => x.name === selected);
  at.current = found >= 0 ? found : Math.min(at.current, Math.max(0, policies.length - 1)); // a new name is in the list after the check
  const p = policies[at.current];
  const plain = (v) => typeof v !== "object" || v === null || (Array.isArray(v) && v.every((x) => typeof x !== "object"));
  const list = (v) => (!plain(v) ? JSON.stringify(v) : Array.isArray(v) ? v.join(", ") : v ?? "");
  const split = (v) => v.split(",").map((x) => x.trim()).filter(Boolean);
  const field = (name, label, props = {}, read = (v) => v) => h("label", { key: at.current + name }, plain(p[name]) ? label : `${label}: ${t("edit.inYaml")}`,
    h("input", { defaultValue: list(p[name]), key: list(p[name]), spellcheck: false, name, disabled: !plain(p[name]), onChange: (e) => onSet(p.name, name, read(e.target.value)), ...props }));
  return h("div", { class: "fields" },
    h("h2", null, t("edit.form")),
    h("label", null, t("policy.name"), h("select", { value: p?.name ?? "", onChange: (e) => onSelect(e.target.value) }, policies.map((x) => h("option", { key: x.name, value: x.name }, x.name)))),
    p && h(Fragment, null,
      field("name", t("edit.name")),
      field("match", t("edit.match")),
      field("key", t("edit.key"), {}, split),
      field("limits", t("edit.limits"), {}, split),
      h("label", { key: at.current + "mode" }, t("policy.mode"), h("select", { name: "mode", value: p.mode || "enforce", onChange: (e) => onSet(p.name, "mode", e.target.value) }, ["enforce", "shadow", "off"].map((m) => h("option", { key: m, value: m }, word("policyMode", m))))),
      field("percent", t("edit.percent"), { type: "number", min: 0, max: 100, defaultValue: p.percent ?? 100, key: p.percent }, Number),
      h("p", { class: "muted small" }, t("edit.formHint"))),
    h("div", { class: "actions" }, h("button", { type: "button", onClick: onAdd }, t("edit.add")), p && h("button", { type: "button", onClick: () => onDelete(p.name) }, t("edit.remove"))));
}

// Diff shows changed lines with three lines of context.
function Diff({ lines }) {
  const hunks = lines.some((l) => l.op === "@"); // the server left out what is far from a change
  const near = (i) => hunks || lines.slice(Math.max(0, i - 3), i + 4).some((l) => l.op !== " ");
  if (!lines.some((l) => l.op === "+" || l.op === "-")) return h("p", { class: "empty" }, t("edit.same"));
  const shown = [];
  let gap = false;
  lines.forEach((l, i) => {
    if (near(i)) {
      shown.push(h("div", { key: i, class: { "+": "add", "-": "del" }[l.op] ?? "same" }, l.op === "@" ? "  …" : `${l.op} ${l.text}`));
      gap = false;
    } else if (!gap) {
      shown.push(h("div", { key: i, class: "same" }, "  …"));
      gap = true;
    }
  });
  return h("div", { class: "diff mono", tabindex: 0, role: "region", "aria-label": t("edit.diff") }, shown);
}

// Effect compares the numbers of denied keys and requests of changed policies.
function Effect({ policies }) {
  const inForce = live.overview?.policies ?? [];
  const changed = policies.filter((p) => {
    const now = inForce.find((x) => x.name === p.name);
    return now && p.limits?.length && limitsText(p.limits) !== limitsText(now.limits);
  }).slice(0, 4);
  const [answers, setAnswers] = useState({});
  useEffect(() => {
    for (const p of changed) {
      get(policyPath(p.name, "threshold?limit=" + encodeURIComponent([p.limits].flat()[0]))).then((a) => setAnswers((old) => ({ ...old, [p.name]: a })), () => {});
    }
  }, [changed.map((p) => p.name + p.limits).join()]);
  if (!changed.length) return null;
  return h("section", null, h("h3", null, t("edit.effect")),
    changed.map((p) => {
      const a = answers[p.name];
      return h("p", { key: p.name }, h("strong", null, p.name), ` ${limitsText([p.limits].flat().slice(0, 1))}: `,
        !a ? t("edit.checking") : !a.enough ? t("threshold.notEnough") : t("edit.effectIs", { now: range(a.now?.keys ?? [0, 0]), keys: range(a.keys), requests: range(a.requests) }));
    }));
}

function Review({ base, text, checked, onClose, onApplied, onConflict }) {
  const [reason, setReason] = useState("");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const apply = async (e) => {
    e.preventDefault();
    setBusy(true);
    try {
      onApplied(await post("/v1/apply", { text, base: base.version, reason: reason.trim() }));
    } catch (err) {
      if (err.status === 409) onConflict(err.body);
      else setError(err);
      setBusy(false);
    }
  };
  return h(Dialog, { title: t("edit.reviewTitle", { version: base.version }), onClose, class: "large" },
    h(Diff, { lines: checked.diff ?? [] }),
    h("p", null),
    h(Effect, { policies: checked.policies ?? [] }),
    h("form", { onSubmit: apply, autocomplete: "off" },
      h("div", { class: "form" }, h("label", { class: "grow" }, t("action.reason"), h("input", { name: "reason", value: reason, required: true, maxlength: 500, autofocus: true, onInput: (e) => setReason(e.target.value) }))),
      h(Fault, { error }), error?.body?.faults && h("ul", { class: "faults" }, error.body.faults.map((f, i) => h("li", { key: i }, faultText(f)))),
      h("div", { class: "actions" }, h("button", { class: "primary", disabled: busy || !reason.trim() || Boolean(blocked()) }, t("edit.apply")), h("button", { type: "button", onClick: onClose }, t("dialog.cancel")))));
}

// Conflict shows the three texts: the base, the version that was published since, the draft.
function Conflict({ base, text, theirs, onClose }) {
  const column = (title, body) => h("div", { key: title }, h("h3", null, title), h("pre", { tabindex: 0 }, body));
  return h(Dialog, { title: t("conflict.title", { version: theirs.current }), onClose: () => onClose(""), class: "large" },
    h("p", null, t("conflict.what", { base: base.version, version: theirs.current })),
    h("div", { class: "three" }, column(t("conflict.base", { version: base.version }), base.text), column(t("conflict.theirs", { version: theirs.current }), theirs.text), column(t("conflict.mine"), text)),
    h("div", { class: "actions" }, h("button", { type: "button", onClick: () => onClose("mine") }, t("conflict.keep", { version: theirs.current })),
      h("button", { type: "button", onClick: () => onClose("theirs") }, t("conflict.take", { version: theirs.current })), h("button", { type: "button", onClick: () => onClose("") }, t("dialog.close"))));
}

// Applied counts the nodes and programs that have the new version. A program without one follows none.
function Applied({ applied }) {
  useLive();
  const nodes = live.overview?.nodes ?? [], programs = (live.overview?.programs ?? []).filter((n) => n.version);
  const have = (list) => list.filter((n) => n.version >= applied.version).length;
  const all = have(nodes) === nodes.length && have(programs) === programs.length;
  const since = useRef(0);
  if (all && !since.current) since.current = Date.now() - applied.since;
  if (applied.scope === "process") return h("p", { class: "done", role: "status" }, t("edit.appliedHere", { version: applied.version }));
  return h("p", { class: "done", role: "status" }, t(programs.length ? "edit.applied" : "edit.appliedToNodes", { version: applied.version, n: have(nodes), nodes: nodes.length, p: have(programs), programs: programs.length }),
    since.current ? ` ${t("edit.in", { time: (since.current / 1000).toFixed(1) })}` : "",
    (applied.warnings ?? []).map((w) => h("span", { class: "problem", key: w }, w)));
}

function Versions() {
  useLive();
  const [versions, setVersions] = useState(null);
  const [chosen, choose] = useState(Number(query("version")) || 0);
  const [error, setError] = useState(null);
  const [done, setDone] = useState("");
  const load = () => get("/v1/versions").then((v) => { setVersions([...v.versions].sort((a, b) => b.version - a.version)); setError(null); }, setError);
  useEffect(() => { load(); }, [live.overview?.version]);
  const pick = (v) => { setQuery("version", v || ""); choose(v); };
  return h(Fragment, null,
    h(Fault, { error }), done && h("p", { class: "done", role: "status" }, done),
    h(Table, { rows: versions ?? [], id: (v) => v.version, empty: versions ? t("edit.noVersions") : t("live.connecting"), columns: [
      { label: t("node.version"), cell: (v) => ["v" + v.version, v.version === versions[0].version && h("span", { class: "muted" }, " " + t("edit.inForce"))] },
      { label: t("chart.time"), cell: (v) => moment(v.at) },
      { label: t("audit.actor"), cell: (v) => v.by || "–" },
      { label: t("action.reason"), cell: (v) => v.note || "–" },
      { label: "", cell: (v) => h("button", { type: "button", onClick: () => pick(v.version), "aria-label": `${v.version === versions[0].version ? t("audit.diff") : t("edit.rollBack")} v${v.version}` }, v.version === versions[0].version ? t("audit.diff") : t("edit.rollBack")) }] }),
    chosen ? h(Version, { number: chosen, versions: versions ?? [], onClose: (text) => { pick(0); if (text) setDone(text); load(); } }) : null);
}

// Version shows what a rollback would change, and for the version in force what it changed.
function Version({ number, versions, onClose }) {
  const [diff, setDiff] = useState(null);
  const [current, setCurrent] = useState(null);
  const [reason, setReason] = useState("");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [moved, setMoved] = useState(0);
  useEffect(() => {
    (async () => {
      try {
        const [now, version] = await Promise.all([get("/v1/text"), get("/v1/versions/" + number)]);
        setCurrent(now.version);
        if (now.version === number) {
          const earlier = versions.find((v) => v.version < number)?.version ?? number - 1;
          const old = await get("/v1/versions/" + earlier).catch(() => ({ text: "" }));
          setDiff(invert((await post("/v1/draft", { text: old.text, base: now.version })).diff ?? []));
        } else {
          setDiff((await post("/v1/draft", { text: version.text, base: now.version })).diff ?? []);
        }
      } catch (e) {
        setError(e);
      }
    })();
  }, [moved]);
  const back = current != null && current !== number;
  const roll = async (e) => {
    e.preventDefault();
    setBusy(true);
    try {
      const { version } = await post("/v1/rollback", { version: number, base: current, reason: reason.trim() });
      onClose(t("edit.rolledBack", { to: number, version }));
    } catch (err) {
      setError(err);
      setBusy(false);
      if (err.status === 409) setMoved(moved + 1); // the diff against the version in force now
    }
  };
  return h(Dialog, { title: back ? t("edit.rollBackTo", { version: number }) : t("edit.versionTitle", { version: number }), onClose: () => onClose(""), class: "large" },
    diff ? h(Diff, { lines: diff }) : !error && h("p", { class: "empty" }, t("edit.checking")),
    h("p", null),
    h("form", { onSubmit: roll, autocomplete: "off" },
      back && h("p", { class: "muted" }, t("edit.rollBackHint", { version: number, current })),
      back && h("div", { class: "form" }, h("label", { class: "grow" }, t("action.reason"), h("input", { name: "reason", value: reason, required: true, maxlength: 500, autofocus: true, onInput: (e) => setReason(e.target.value) }))),
      h(Fault, { error }),
      h("div", { class: "actions" },
        back && h("button", { class: "primary", disabled: busy || !diff || !reason.trim() || Boolean(blocked()) }, t("edit.rollBack")),
        h("button", { type: "button", onClick: () => onClose("") }, back ? t("dialog.cancel") : t("dialog.close")), back && h("span", { class: "muted" }, blocked()))));
}

const invert = (lines) => {
  const turned = lines.map((l) => ({ ...l, op: { "+": "-", "-": "+" }[l.op] ?? l.op }));
  const out = [];
  for (let i = 0; i < turned.length;) { // removed lines before added ones
    let j = i;
    while (j < turned.length && "+-".includes(turned[j].op)) j++;
    if (j === i) out.push(turned[i++]);
    else {
      const run = turned.slice(i, j);
      out.push(...run.filter((l) => l.op === "-"), ...run.filter((l) => l.op === "+"));
      i = j;
    }
  }
  return out;
};

mount("edit", Edit);
