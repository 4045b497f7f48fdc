// The live data of a page: the overview, series of the last ten minutes and one event
// stream, which is closed while the page is hidden or paused.
import { useEffect, useState } from "./lib/hooks.js";
import { get } from "./api.js";
import { Series } from "./series.js";

export const live = {
  state: "connecting", // live, paused, hidden or reconnecting
  at: 0, // Unix seconds of the latest tick
  overview: null,
  all: new Series(),
  series: new Map(), // by policy
  tick: null,
  top: null, // of the page's policy
  versions: [], // seen since the page was opened: {version, by, note, at}
  audit: [],
  problem: null,
};

const listeners = new Set();
let topics = ["overview"];
let source = null;
let retry = 0;
let scheduled = false;

// changed renders once per frame, however many events arrive.
function changed() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    for (const f of listeners) f();
  });
}

// useLive renders a component again when live data changes.
export function useLive() {
  const [, set] = useState(0);
  useEffect(() => {
    const f = () => set((n) => n + 1);
    listeners.add(f);
    return () => listeners.delete(f);
  }, []);
  return live;
}

// self returns the node that serves this page.
export const self = () => live.overview?.nodes?.find((n) => n.self);

// storeDown reports whether changes are impossible because the store is unavailable.
export const storeDown = () => self()?.store?.state === "down";

// start loads the data and opens the stream. policy is the policy of the page, if any.
export function start(policy) {
  if (policy) {
    topics = ["overview", "policy:" + policy];
    live.series.set(policy, new Series());
  }
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close(live.state === "paused" ? "paused" : "hidden");
    else if (live.state === "hidden") open();
  });
  if (document.hidden) live.state = "hidden";
  else open();
}

export function pause() {
  if (live.state === "paused") open();
  else close("paused");
}

function close(state) {
  clearTimeout(retry);
  source?.close();
  source = null;
  live.state = state;
  changed();
}

async function open() {
  close(live.at ? "reconnecting" : "connecting");
  const mine = (source = new EventSource("/v1/events?topics=" + encodeURIComponent(topics.join(","))));
  const on = (kind, handle) => mine.addEventListener(kind, (e) => {
    if (mine !== source) return;
    handle(JSON.parse(e.data));
    changed();
  });
  on("tick", tick);
  on("top", (top) => { live.top = top; });
  on("nodes", ({ nodes, programs }) => {
    if (live.overview) Object.assign(live.overview, { nodes, programs });
  });
  on("version", (v) => {
    live.versions.push(v);
    if (live.overview) live.overview.version = v.version;
    loadOverview();
  });
  on("audit", ({ entry, ...rest }) => { live.audit = [entry ?? rest, ...live.audit].slice(0, 50); });
  mine.onerror = () => {
    if (mine === source) again();
  };
  try {
    await load();
    if (mine === source && live.state !== "live") live.state = "live";
    live.problem = null;
  } catch (e) {
    live.problem = e;
    if (mine === source) again();
  }
  changed();
}

// again opens the stream after a while. EventSource would retry without filling the gap.
function again() {
  close("reconnecting");
  retry = setTimeout(() => document.hidden ? close("hidden") : open(), 1000 + 1000 * Math.random());
}

// load fetches the overview and the seconds since the latest tick.
async function load() {
  const since = live.all.last() ?? 0;
  const jobs = [loadOverview(), fill(live.all, "", since)];
  for (const [policy, series] of live.series) {
    jobs.push(fill(series, "&policy=" + encodeURIComponent(policy), series.last() ?? 0));
  }
  await Promise.all(jobs);
}

async function loadOverview() {
  live.overview = await get("/v1/overview");
  changed();
}

async function fill(series, query, since) {
  const data = await get(`/v1/series?since=${since}${query}`);
  series.load(data);
  live.at = Math.max(live.at, series.last() ?? 0);
}

const columns = ["admitted", "denied", "delayed", "shadow", "overloaded", "candidate"];

function tick(event) {
  live.tick = event;
  live.at = event.t;
  live.state = "live";
  const row = (values, latency) => Object.fromEntries([
    ...columns.map((c, i) => [c, values[i] ?? 0]), ["p50", latency?.[0]], ["p99", latency?.[1]]]);
  live.all.push(event.t, row(event.all, event.latency));
  for (const [policy, series] of live.series) series.push(event.t, row(event.policies?.[policy] ?? []));
  for (const p of live.overview?.policies ?? []) {
    const values = event.policies?.[p.name] ?? [];
    const [admitted = 0, denied = 0, , shadow = 0] = values;
    p.rate = admitted + denied;
    p.denied = denied;
    p.denied_share = p.rate ? denied / p.rate : 0;
    p.shadow = shadow;
    p.trend = [...(p.trend ?? []), denied].slice(-60);
  }
}
