import { alertBuyer, alerts, calendarLink, switchAlerts } from "./alert.js";
import { call, local, random, session } from "./api.js";
import { Captcha, UNAVAILABLE } from "./captcha.js";
import { limited, openSession, signIn } from "./identity.js";
import { Slot, h, main, put, say } from "./dom.js";
import { Offer } from "./offer.js";
import { loadProduct } from "./product.js";
import { persist, sure, why } from "./persist.js";
import { Receipt, held } from "./receipt.js";
import { stageOf, unitsOf } from "./stage.js";
import { about, between, clockwise, money, number, percent, t } from "./text.js";
import { Poll, keep, later, now } from "./time.js";
import { Work } from "./work.js";

const id = location.pathname.split("/").at(-1);
const path = `/api/sales/${id}`;
const placeKey = `fs.place.${id}`; // the signed ticket
const lastKey = `fs.last.${id}`; // the last receipt; lost ones are in no list
const buyKey = `fs.buy.${id}`; // of a purchase without a final response
const clickKey = `fs.click.${id}`; // of a click without a final response
const wantKey = `fs.want.${id}`; // whether the buyer has clicked, and waits for a unit

const quantityKey = `fs.quantity.${id}`; // how many units the buyer wants in one order

let view = null;
let turn = null;
const receipts = new Map();
let doing = ""; // captcha, join or buy, while in progress
let note = ""; // the text of the last response
let trouble = ""; // why the page may be out of date
let hasty = 0; // consecutive requests that were too early
let stage = "";
let left = session.get(`fs.left.${id}`) === true; // the buyer has left the line, and no longer polls for a turn

const banner = h("div", { "aria-live": "polite" });
const offer = new Offer();
const mine = h("div", { class: "stack" });
const action = new Slot({ class: "card action", id: "action" });
const poll = new Poll(refresh, () => ["waiting", "admitted"].includes(turn?.state)); // a ticket is lost without polls
const work = new Work(id);
const captcha = new Captcha(id);

// signedIn gets a session, as a guest if there is none.
const signedIn = () => openSession((text) => { trouble = text; draw(); });

// take shows a status, or a view alone.
function take(body) {
  if (body.view) {
    turn = body;
    view = limited(body.view);
    if (body.place) local.set(placeKey, body.place);
    if (body.state === "spent" || body.state === "passed") session.set(buyKey, null);
    if (body.state !== "waiting" && body.state !== "admitted") local.set(wantKey, null);
    if (body.restored) note = t("line.restored");
    for (const r of body.held ?? []) remember(r);
    for (const [name, r] of receipts) {
      // Held before and not now: it expired, was cancelled or was lost.
      if (held(r) && !(body.held ?? []).some((other) => other.receipt === name)) look(name);
    }
  } else {
    view = limited(body);
  }
  return (body.poll_after_ms ?? view.poll_after_ms) || 1000;
}

// remember stores a reservation from a response. An order never becomes merely reserved again,
// because a status does not have the state of orders and a response may be old.
function remember(r) {
  const known = receipts.get(r.receipt);
  if (known && known.state !== "reserved" && r.state === "reserved") return;
  receipts.set(r.receipt, r);
  const last = receipts.get(local.get(lastKey));
  if (!last || Date.parse(r.at) >= Date.parse(last.at)) local.set(lastKey, r.receipt);
}

const looking = new Set();

// look reloads the order of a reservation.
async function look(name) {
  if (looking.has(name)) return;
  looking.add(name);
  try {
    const answer = await persist(() => call("GET", `/api/orders/${encodeURIComponent(name)}`), () => {}, () => true, 1500);
    if (answer.ok) remember(answer.body);
    else if (answer.status === 404 || answer.status === 400) {
      receipts.delete(name);
      if (local.get(lastKey) === name) local.set(lastKey, null);
    }
  } finally {
    looking.delete(name);
  }
  draw();
}

// oneClick reports whether a click reserves a unit as soon as one is free.
const oneClick = () => view.queue !== "direct";

// refresh reloads the status and returns when to poll again. For a buyer who has clicked it
// reserves a unit when the turn has come.
async function refresh() {
  const before = clicks;
  const place = local.get(placeKey);
  let answer = left ? await call("GET", path) : { ok: false };
  if (left && answer.ok) turn = null;
  if (!left && view && oneClick() && place && local.get(wantKey)) answer = await call("POST", `${path}/ticket`, { place, buy: true, quantity: quantity() });
  if (answer.reason === "few_left") {
    stepAside(answer);
    answer = await call("GET", path);
    turn = null;
  }
  if (!left && !answer.ok && !(answer.status === 0 || answer.status === 429 || answer.status >= 500)) {
    answer = await call("GET", `${path}/ticket`, undefined, place ? { "Flashsale-Place": place } : {});
  }
  if (answer.reason === "work_due") {
    // Many buyers share this address: work proves that this is one of them.
    const nonce = await work.again(answer.body);
    if (nonce) answer = await call("GET", `${path}/ticket`, undefined, { "Flashsale-Work": nonce, ...(place ? { "Flashsale-Place": place } : {}) });
  }
  if (answer.status === 401) {
    await signedIn();
    answer = await call("GET", `${path}/ticket`);
  }
  // Refused because of the sale and not of the rate: the sale has the reason.
  if (!answer.ok && ([400, 403, 409, 410, 425].includes(answer.status) || answer.reason === "paused")) answer = await call("GET", path);
  if (answer.status === 404) {
    gone();
    return Infinity;
  }
  if (!answer.ok) {
    const wait = Math.max(1000, answer.retry ?? 5000);
    hasty = answer.status === 429 ? hasty + 1 : 2;
    // A request that was too early is shown only if it happens repeatedly.
    trouble = view && hasty < 2 ? "" : view ? t("trouble", { why: why(answer), time: about(wait) }) : t("again.in", { why: why(answer), time: about(wait) });
    draw();
    return wait;
  }
  if (doing === "join" || before !== clicks) return 300; // the answer may be older than the click, and has no ticket
  trouble = "";
  hasty = 0;
  const wait = take(answer.body);
  draw();
  return wait;
}

// most returns how many units the buyer can have in one order.
const most = () => Math.max(1, Math.min(view.max_quantity ?? 1, view.per_user - unitsOf([...receipts.values()])));

// quantity returns how many units the buyer wants.
const quantity = () => Math.min(session.get(quantityKey) ?? 1, most());

// stepAside shows that fewer units are left than wanted. The next buyer can have them, until the
// buyer chooses fewer and clicks again, which restores the position.
function stepAside(answer) {
  setLeft(true);
  local.set(wantKey, null);
  note = why(answer);
}

function gone() {
  main.replaceChildren(h("h1", {}, t("missing.title")), h("p", {}, t("missing.sale")), h("p", {}, h("a", { class: "button", href: "/" }, t("missing.home"))));
}

// worked returns the proof of work for a ticket, or undefined.
const worked = async () => (view.work > 0 && (await work.nonce())) || undefined;

let clicks = 0; // the calls of join that have begun or ended

async function join() {
  clicks++;
  doing = "join";
  note = "";
  setLeft(false);
  draw();
  const place = local.get(placeKey) ?? undefined;
  const key = session.get(clickKey) ?? random();
  session.set(clickKey, key);
  const body = { place, work: await worked() };
  const joining = !captcha.on || place || (body.captcha = await solved());
  const ask = () => {
    if (oneClick()) {
      local.set(wantKey, true); // the page has perhaps polled since the click
      Object.assign(body, { buy: true, quantity: quantity() });
    }
    return persist(() => call("POST", `${path}/ticket`, body, { "Idempotency-Key": key, ...(body.work ? { "Flashsale-Work": body.work } : {}) }), showNote);
  };
  let answer = joining ? await ask() : { ok: false };
  for (let i = 0; i < 4 && joining && (await supply(body, answer, i === 0)); i++) answer = await ask();
  doing = "";
  clicks++;
  session.set(clickKey, null);
  if (answer.ok) poll.in(take(answer.body));
  else if (body.captcha === null) local.set(wantKey, null); // the buyer has cancelled
  else if (answer.reason === "few_left") stepAside(answer);
  else {
    note = answer.reason === "captcha_due" && body.captcha === UNAVAILABLE ? t("captcha.failed") : why(answer);
    local.set(wantKey, null);
  }
  draw();
  if (!answer.ok) poll.now();
}

// solved returns a token of the captcha, or null if the buyer cancels. The page polls meanwhile.
async function solved() {
  doing = "captcha";
  showNote(t("captcha.wait"));
  const token = await captcha.token();
  clicks++;
  doing = "join";
  showNote("");
  return token;
}

// supply adds to a click what a refusal requires, and reports whether the click can be repeated. The
// secret of the shop or the session may have changed, or a token was used by a lost request.
async function supply(body, answer, first) {
  if (answer.status === 401) {
    if (!first) return false; // a guest, where members alone can buy
    await signedIn();
    Object.assign(body, { place: undefined, work: await worked() });
    return true;
  }
  if (answer.reason === "work_due") return Boolean((body.work = await work.again(answer.body)));
  if (answer.reason !== "captcha_due" || !captcha.on || body.captcha === UNAVAILABLE) return false;
  body.captcha = await solved();
  return body.captcha !== null;
}

// buy sends one purchase with one key until the response is final. A reloaded page continues
// with the same key.
async function buy() {
  const { token, until } = turn;
  const kept = session.get(buyKey);
  const key = kept?.token === token ? kept.key : random();
  session.set(buyKey, { token, key });
  doing = "buy";
  note = "";
  draw();
  const answer = await persist(() => call("POST", `${path}/orders`, { token, quantity: quantity() }, { "Idempotency-Key": key }), showNote, () => now() < Date.parse(until));
  doing = "";
  if (answer.ok) {
    session.set(buyKey, null);
    remember(answer.body);
    if (turn) turn = { ...turn, state: "spent", token: undefined };
    poll.in(1500); // the order is reloaded sooner, by its receipt
  } else {
    note = why(answer);
    poll.now();
  }
  draw();
}

function setLeft(on) {
  left = on;
  session.set(`fs.left.${id}`, on || null);
}

// leave stops polling: the position is free for others after the grace period, and can be
// restored for a while.
async function leave() {
  if (!(await sure(t("leave.sure"), t("leave.yes")))) return;
  setLeft(true);
  local.set(wantKey, null);
  poll.now();
}

let reminder = ""; // the start for which a reminder is planned

// planReminder reminds the buyer a minute before the start, if wanted, while the page is open.
function planReminder() {
  const wait = Date.parse(view.starts_at) - now() - 60_000;
  if (!alerts() || reminder === view.starts_at || !(wait > 0) || wait > 2 ** 31 - 1) return;
  const at = (reminder = view.starts_at);
  later(wait, () => view.starts_at === at && alertBuyer(t("remind.soon"), offer.title));
}

function showNote(text) {
  note = text;
  draw();
}

// draw updates the page. It changes only what differs.
function draw() {
  if (!view) {
    if (trouble) main.replaceChildren(h("p", { class: "banner warn", role: "status" }, trouble));
    return;
  }
  if (!offer.el.isConnected) {
    loadProduct(view.id).then((p) => { offer.show(p, view); draw(); });
    main.replaceChildren(banner, h("div", { class: "sale" }, offer.el, h("div", { class: "stack now" }, mine, action.el, captcha.el)));
  }
  const before = stage;
  stage = stageOf(view, turn, [...receipts.values()], now());
  offer.update(view, stage);
  if (view.work > 0 && ["upcoming", "lobby", "open", "all_taken"].includes(stage)) work.nonce();
  if (captcha.on) captcha.show(clickable() && (doing === "captcha" || !local.get(placeKey)), doing === "");
  drawBanner();
  drawReceipts();
  const passed = turn?.state === "passed" && ["open", "all_taken"].includes(stage);
  action.el.hidden = stage === "enough";
  action.el.dataset.stage = stage;
  action.show([stage, doing, passed, alerts(), view.starts_at, offer.title, view.phase === "paused", view.phase === "all_taken", view.queue, view.work, view.members_only, signIn(), most()].join(), (live) => build(live, passed));
  const title = t(`stage.${stage}`);
  if (stage !== before) {
    if ((before || stage === "turn") && stage !== "enough") say(title);
    if (before && (stage === "turn" || (["upcoming", "lobby"].includes(before) && stage === "open"))) alertBuyer(title, offer.title);
  }
  const unpaid = [...receipts.values()].find((r) => held(r) && r.state !== "paid");
  const head = unpaid ? `● ${t(`receipt.${unpaid.state}`)}` : stage === "turn" ? `● ${title}` : title;
  if (document.title !== `${head} · ${offer.title}`) document.title = `${head} · ${offer.title}`;
  planReminder();
}

// clickable reports whether the buyer can click now or within a minute.
const clickable = () => ["lobby", "open", "all_taken"].includes(stage) || (stage === "upcoming" && Date.parse(view.starts_at) - now() < 60_000);

function drawBanner() {
  const text = view.phase === "paused" ? t(turn?.state === "waiting" ? "paused.line" : "paused") : "";
  const wanted = [text, trouble].filter(Boolean);
  if (banner.dataset.text === wanted.join("|")) return;
  banner.dataset.text = wanted.join("|");
  banner.replaceChildren(...wanted.map((w) => h("p", { class: "banner warn", "data-banner": w === text ? "paused" : "trouble" }, w)));
}

const cards = new Map();

let drawn = false; // whether the receipts were drawn before

// reserved announces a new unit: it was perhaps reserved while the page was hidden.
function reserved(r) {
  const text = t(`receipt.${r.state}`);
  say(text);
  alertBuyer(text, offer.title);
}

// The units that the buyer holds. A finished order is shown only if it is the newest.
function drawReceipts() {
  const all = [...receipts.values()].sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
  const shown = all.filter((r, i) => held(r) || i === 0);
  for (const r of shown) {
    const card = cards.get(r.receipt);
    if (!card) {
      cards.set(r.receipt, new Receipt(r, changed));
      if (drawn && held(r) && r.state !== "paid") reserved(r);
    }
    else if (card.receipt !== r) {
      if (card.receipt.state !== r.state) say(t(`receipt.${r.state}`));
      card.update(r);
    }
  }
  for (const [name, card] of cards) {
    if (shown.some((r) => r.receipt === name)) continue;
    card.el.remove();
    cards.delete(name);
  }
  drawn = true;
  const els = shown.map((r) => cards.get(r.receipt).el);
  if (els.some((el, i) => mine.children[i] !== el)) mine.replaceChildren(...els);
}

async function changed(r) {
  remember(r);
  draw();
  poll.in(1000);
}

function build(live, passed) {
  const title = h("h2", { tabindex: "-1" }, t(`stage.${stage}`));
  const text = h("p", {}, t(passed ? "stage.passed.text" : stage === "line" && view.phase === "all_taken" ? "stage.line.taken" : `stage.${stage}.text`, { n: number(view.per_user) }));
  const notes = h("p", { class: "note", id: "note", "aria-live": "polite" });
  live(() => put(notes, note));
  const button = (name, on, label, off = false) => h("div", { class: "dock" }, h("button", {
    type: "button", class: "main", id: name, "data-main": "", disabled: off, "aria-disabled": doing ? "true" : undefined, "aria-describedby": "note",
    onclick: () => { if (!doing) on(); },
  }, t(doing === name ? `${name}.busy` : label)));
  const click = (label) => [button("join", join, label), doing === "captcha" && h("p", {}, h("button", { type: "button", class: "quiet", id: "uncaptcha", onclick: () => captcha.cancel() }, t("captcha.cancel")))];
  const choose = () => most() > 1 && quantityField(live);
  const notify = (label) => h("button", {
    type: "button", class: "quiet", id: "notify", "aria-pressed": String(alerts()), onclick: () => switchAlerts().then(draw),
  }, alerts() ? `✓ ${t("notify.on")}` : t(label));
  const remind = () => h("div", { class: "row" }, notify("remind"), calendarLink(view, offer.title));
  const clock = (until) => {
    const el = h("p", { class: "clock", role: "timer" });
    live(() => {
      put(el, clockwise(until() - now()));
      el.classList.toggle("long", until() - now() >= 86_400_000);
      el.classList.toggle("soon", until() - now() < 10_000);
    });
    return el;
  };
  const starts = () => Date.parse(view.starts_at);
  const members = view.members_only && signIn() && h("p", { class: "banner warn", id: "members" }, t("why.sign_in"), " ", h("a", { href: signIn() }, t("sign.in")));
  const toil = [members, view.work > 0 && work.el];
  switch (stage) {
    case "upcoming": return [title, clock(starts), text, choose(), button("join", join, label(), true), remind(), toil, notes];
    case "lobby": return [title, clock(starts), text, choose(), click("join.lobby"), toil, notes];
    case "drawn": return [title, clock(starts), text, h("div", { class: "row" }, notify("notify")), notes];
    case "open":
    case "all_taken": return [title, text, choose(), click(label()), toil, notes];
    case "line": return [title, ...line(live), text,
      h("div", { class: "row dock" }, notify("notify"), h("button", { type: "button", class: "quiet", id: "leave", onclick: leave }, t("leave"))), notes];
    case "turn": return [title, clock(() => Date.parse(turn?.until)), text, choose(), button("buy", buy, "buy", view.phase === "paused"), notes];
    default: return [title, text, notes, h("p", {}, h("a", { class: "button quiet", href: "/" }, t("nav.more")))];
  }
}

// quantityField lets the buyer choose how many units an order has, and shows their price.
function quantityField(live) {
  const input = h("select", { id: "quantity", onchange: () => { session.set(quantityKey, Number(input.value)); draw(); } },
    Array.from({ length: most() }, (_, i) => h("option", { value: String(i + 1) }, number(i + 1))));
  const price = h("strong", { id: "total" });
  live(() => {
    input.value = String(quantity());
    put(price, money(view.price * quantity(), view.currency));
  });
  return h("p", { class: "row" }, h("label", { for: "quantity" }, t("quantity")), input, price);
}

const label = () => (view.queue === "direct" ? "join.direct" : stage === "all_taken" ? "join" : "join.now");

function line(live) {
  const ahead = h("strong", { id: "ahead" });
  const eta = h("strong", { id: "eta" });
  const share = h("dd", { id: "progress" });
  const bar = h("progress", { max: "1", "aria-label": t("line.progress") });
  const key = `fs.first.${id}`;
  live(() => {
    if (turn?.state !== "waiting") return;
    const first = Math.max(turn.ahead, session.get(key) ?? 0, 1);
    session.set(key, first);
    put(ahead, number(turn.ahead));
    put(eta, turn.unlikely ? t("line.unlikely") : turn.eta_ms > 0 ? between(turn.eta_low_ms ?? turn.eta_ms, turn.eta_high_ms ?? turn.eta_ms) : t("line.soon"));
    bar.value = 1 - turn.ahead / (first + 1);
    put(share, percent(bar.value));
  });
  return [
    h("dl", { class: "facts" },
      h("div", {}, h("dt", {}, t("line.ahead")), h("dd", {}, ahead)),
      h("div", {}, h("dt", {}, t("line.eta")), h("dd", {}, eta)),
      h("div", {}, h("dt", {}, t("line.progress")), share)),
    bar,
  ];
}

// The clock updates the page. At the start the button becomes active without a request, so that
// browsers do not all send one at the same time.
setInterval(() => {
  if (document.hidden || !view) return;
  draw();
  for (const card of cards.values()) {
    card.draw();
    if (card.due()) lookSlowly(card.receipt.receipt);
  }
}, 200);

const slow = new Map();

// lookSlowly reloads repeatedly, with growing pauses.
function lookSlowly(name) {
  const s = slow.get(name) ?? { next: 0, wait: 300 };
  if (performance.now() < s.next) return;
  s.next = performance.now() + s.wait * (1 + Math.random() / 4);
  s.wait = Math.min(1500, s.wait * 1.6); // a lost reservation is shown within 2 s
  slow.set(name, s);
  look(name);
}

async function begin() {
  await Promise.all([keep(), signedIn()]);
  const last = local.get(lastKey);
  const list = await persist(() => call("GET", "/api/orders"), (text) => { trouble = text; draw(); });
  for (const r of list.ok ? list.body.orders : []) if (r.sale === id) receipts.set(r.receipt, r);
  if (last && !receipts.has(last)) await look(last);
  await poll.now();
}

begin();
