import { h, Fragment } from "../lib/preact.js";
import { useEffect, useState } from "../lib/hooks.js";
import { get } from "../api.js";
import { mount, operates } from "../frame.js";
import { rate, share, t, word } from "../i18n.js";
import { live, useLive } from "../live.js";
import { Breaker, Dialog, Fault, State, Table, limitsText, link, useQuery } from "../ui.js";

const setup = `import "github.com/floodweir/weir/guard"

//weir:limit name=getId limit=10/10s key=userID
func (s *Service) GetID(ctx context.Context, userID string) (int, error)`;

function Functions() {
  useLive();
  const [q, setQ] = useQuery("q", "");
  const [data, setData] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    const load = () => get("/v1/functions").then((d) => { setData(d); setError(null); }, setError);
    load();
    const timer = setInterval(() => { if (!document.hidden && live.state !== "paused") load(); }, 1000);
    return () => clearInterval(timer);
  }, []);
  const [change, setChange] = useState(null); // the function whose limits to change
  const all = data?.functions ?? [];
  const rows = all.filter((f) => !q || [f.name, ...f.programs.map((p) => p.service)].some((x) => x.toLowerCase().includes(q.toLowerCase())));
  rows.sort((a, b) => Number(b.breaker === "open") - Number(a.breaker === "open") || b.denied_share - a.denied_share || a.name.localeCompare(b.name));
  return h(Fragment, null,
    h("div", { class: "heading" }, h("h1", null, t("nav.functions")), data && h("span", { class: "muted" }, t("policies.count", { n: rows.length, all: all.length }))),
    h("div", { class: "form" }, h("label", { class: "grow" }, t("functions.filter"), h("input", { type: "search", value: q, "data-search": "", onInput: (e) => setQ(e.target.value) }))),
    error?.status === 404 ? h("p", { class: "muted" }, error.message) : h(Fault, { error }),
    error?.status === 404 || (data && !all.length) ? h("div", { class: "note" }, h("p", null, t("functions.empty")), h("pre", { tabindex: 0 }, setup))
      : h(Table, { rows, id: (f) => f.name, empty: data ? t("functions.none") : t("live.connecting"), columns: [
        { label: t("functions.name"), cell: (f) => h("span", { class: "mono" }, f.name) },
        { label: t("overview.programs"), cell: programs },
        { label: t("policy.limits"), cell: (f) => [limitsText(f.limits), h("span", { class: "muted" }, ` (${word("source", f.source)}${f.source === "rule" && f.version ? " v" + f.version : ""})`), " ",
          operates() && h("button", { type: "button", class: "plain small", onClick: () => setChange(f) }, t("functions.change"))] },
        { label: t("functions.calls"), num: true, cell: (f) => rate(f.calls) },
        { label: t("policy.denied"), num: true, cell: (f) => h("span", { class: f.denied_share > 0 ? "denied" : undefined }, share(f.denied_share)) },
        { label: t("functions.failed"), num: true, cell: (f) => h("span", { class: f.failed_share > 0.05 ? "denied" : undefined }, share(f.failed_share)) },
        { label: t("functions.breaker"), cell: (f) => h(Breaker, { state: f.breaker, open: f.breaker_open_ms }) }] }),
    change && h(Change, { f: change, onClose: () => setChange(null) }));
}

// Change asks for other limits, and opens the editor with a draft that has them.
function Change({ f, onClose }) {
  const [limits, setLimits] = useState(limitsText(f.limits));
  const open = (e) => {
    e.preventDefault();
    location.assign(link("edit", { function: f.name, limits }));
  };
  return h(Dialog, { title: t("functions.changeOf", { name: f.name }), onClose },
    h("p", { class: "muted" }, t("functions.changeHint")),
    h("form", { onSubmit: open, autocomplete: "off" },
      h("div", { class: "form" }, h("label", { class: "grow" }, t("action.limits"), h("input", { type: "text", value: limits, required: true, spellcheck: false, autofocus: true, onInput: (e) => setLimits(e.target.value) }))),
      h("div", { class: "actions" }, h("button", { class: "primary" }, t("threshold.use")), h("button", { type: "button", onClick: onClose }, t("dialog.cancel")))));
}

// programs lists the services with their processes, and counts those that are outdated.
function programs(f) {
  const old = f.programs.reduce((n, p) => n + p.outdated, 0);
  return [f.programs.map((p) => (p.processes > 1 ? `${p.service} ×${p.processes}` : p.service)).join(", ") || "–", old ? h(State, { level: "warn" }, " " + t("functions.old", { n: old })) : null];
}

mount("functions", Functions);
