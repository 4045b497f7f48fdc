import { has, money, moment, number, t } from "./text.js";

const stateOf = (state, why) => t(`state.${state}`) + (has(`state.why.${why}`) ? ` (${t(`state.why.${why}`)})` : "");

// role returns the name of a role, without its description.
const role = (name) => (has(`role.${name}`) ? t(`role.${name}`).split(/[：:]/)[0] : name);

// changes names the fields and the times of changes in the language of the page. It leaves what
// is in quotes.
const changes = (text) => text.replace(/"(?:[^"\\]|\\.)*"|\d{4}-\d\d-\d\dT[\d:.]+Z|(?:added|removed) (?:picture|variant)|[a-z_]+/g, (word) => {
  if (/^\d/.test(word)) return moment(word);
  const key = [`log.change.${word.replace(" ", "_")}`, `draft.${word}`, `draft.${word}_ms`, `product.${word}`, `variant.${word}`].find(has);
  return key ? t(key).replace(/\s*[(（].*[)）]$/, "") : word; // without a unit: the value has its own
});

// reason returns why an order was refunded: by a merchant, or by the system.
const reason = (why) => (why === "at the payment provider" ? t("log.refunded.provider") : why);

// The entries of the audit log that have a text in each language.
const KNOWN = [
  [/^created$/, () => t("log.created")],
  [/^copied from (\S+)$/, (id) => t("log.copied", { id })],
  [/^added (\d+) units$/, (n) => t("log.added", { n: number(n) })],
  [/^(\w+) \((\w*)\) became (\w+) \((\w*)\)$/, (from, before, to, why) => t("log.became", { from: stateOf(from, before), to: stateOf(to, why) })],
  [/^cancelled order (\S+): (.*)$/s, (id, why) => t("log.cancelled", { id, why })],
  [/^refunded order (\S+), payment \S+: (.*)$/s, (id, why) => t("log.refunded", { id, why: reason(why) })],
  [/^edited product: (.*)$/s, (all) => t("log.product", { changes: changes(all) })],
  [/^edited: (.*)$/s, (all) => t("log.edited", { changes: changes(all) })],
  [/^refund due: payment \S+(?: of \d+)? for reservation (\S+), which is (\w+)$/, (id, state) => t("log.refund_due", { id, state: has(`order.${state}`) ? t(`order.${state}`) : state })],
  [/^(a refund has failed: )?the payment provider has returned (\d+) of (\d+) of payment \S+ for order (\S+)$/, (failed, back, amount, id, currency) => t(failed ? "log.provider.failed" : "log.provider", { back: money(back, currency), amount: money(amount, currency), id })],
  [/^added account (.+) \((\w+)\)$/, (name, as) => t("log.account.added", { name, role: role(as) })],
  [/^account (.+): role (\w+) became (\w+)$/, (name, from, to) => t("log.account.role", { name, from: role(from), to: role(to) })],
  [/^account (.+): (?:new (password)|(disabled|enabled))$/, (name, password, state) => t(`log.account.${password ?? state}`, { name })],
  [/^recovers, epoch (\d+)$/, (epoch) => t("log.recovers", { epoch })],
  [/^recovered, epoch (\d+)$/, (epoch) => t("log.recovered", { epoch })],
];

// logged returns what an entry of the audit log says, in the language of the page if it is known.
// currency is that of its amounts.
export function logged(what, currency = "") {
  for (const [form, text] of KNOWN) {
    const found = form.exec(what);
    if (found) return text(...found.slice(1), currency);
  }
  return what;
}

// actor returns who made an entry: an account, or a part of the system, whose names no account can
// have.
export const actor = (name) => (has(`log.actor.${name}`) ? t(`log.actor.${name}`) : name);

// problem returns what prevents exposing a sale, in the language of the page if it is known.
export function problem(text) {
  const key = `check.${text.split(":")[0].replaceAll(" ", "_")}`;
  return has(key) ? t(key) : text;
}
