import { call } from "./api.js";
import { cover, phaseAt } from "./card.js";
import { h, main, put } from "./dom.js";
import { why } from "./persist.js";
import { listPrice } from "./product.js";
import { about, clockwise, money, number, one, t } from "./text.js";
import { Poll, keep, now } from "./time.js";

const name = location.pathname.split("/").at(-1);
const title = name[0].toUpperCase() + name.slice(1).replaceAll("-", " ");
const heading = h("h1", {}, title);
const lead = h("p", { class: "lead", id: "lead" });
const note = h("p", { class: "note", role: "status" });
const list = h("ul", { class: "sales campaign" });
const views = new Map();
const cards = new Map(); // {key, el, tick} by the ID of the sale
document.title = document.title.replace(/^[^·]*/, `${title} `);

async function refresh() {
  const answer = await call("GET", `/api/campaigns/${name}`);
  if (answer.status === 404) {
    main.replaceChildren(h("h1", {}, t("missing.title")), h("p", {}, t("missing.campaign")), h("p", {}, h("a", { class: "button", href: "/" }, t("missing.home"))));
    return 10_000; // its first sale may be published soon
  }
  if (!list.isConnected) main.replaceChildren(heading, lead, note, list);
  if (!answer.ok) {
    const wait = Math.max(1000, answer.retry ?? 5000);
    put(note, t("again.in", { why: why(answer), time: about(wait) }));
    return wait;
  }
  put(note, "");
  const { sales, poll_after_ms: wait } = answer.body;
  put(lead, t("campaign.lead", { n: number(sales.length) }));
  const els = sales.map((s) => {
    views.set(s.id, s);
    const key = JSON.stringify([s.title, s.price, s.product]);
    if (cards.get(s.id)?.key !== key) cards.set(s.id, { key, ...card(s) });
    return cards.get(s.id).el;
  });
  if (els.length !== list.children.length || els.some((el, i) => list.children[i] !== el)) list.replaceChildren(...els);
  tick();
  return Math.max(2000, wait || 5000);
}

// The button of each phase: its text, and whether it is the main action.
const BUTTONS = { open: ["buy", true], lobby: ["queue", true], all_taken: ["queue", true], upcoming: ["soon", false] };

// card returns the element of a sale, and the function that updates it.
function card(s) {
  const text = one(s.product.title) || s.title;
  const href = `/sales/${s.id}`;
  const pill = h("span", { class: "pill" });
  const when = h("p", { class: "when" });
  const bar = h("progress", { max: "1", "aria-label": t("offer.share") });
  const button = h("a", { class: "button", href, "aria-describedby": `title-${s.id}` });
  const before = listPrice(s.product, s);
  const tick = () => {
    const view = views.get(s.id);
    const [phase, next] = phaseAt(view);
    put(pill, t(`phase.${phase}`));
    pill.dataset.phase = phase;
    const left = Date.parse(view.ends_at) - now();
    put(when, phase === "open" ? t("campaign.open", { n: number(view.free), time: clockwise(left) }) : next);
    bar.hidden = !["open", "all_taken", "sold_out"].includes(phase);
    bar.value = (view.stock - view.free) / Math.max(1, view.stock);
    const [label, strong] = BUTTONS[phase] ?? ["see", false];
    put(button, t(`campaign.${label}`));
    button.classList.toggle("quiet", !strong);
  };
  const el = h("li", { class: "card", "data-sale": s.id },
    h("a", { class: "cover", href, tabindex: "-1", "aria-hidden": "true" }, cover(text, s.product.picture)),
    pill, h("h2", { id: `title-${s.id}` }, h("a", { href }, text)), one(s.product.variant) && h("p", { class: "hint" }, one(s.product.variant)),
    h("p", { class: "price" }, money(s.price, s.currency), before && [" ", before]), bar, when, button);
  return { el, tick };
}

function tick() {
  for (const c of cards.values()) c.tick();
}

setInterval(() => document.hidden || tick(), 250);
await keep();
await new Poll(refresh).now();
