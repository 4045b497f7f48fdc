import { has, number, t } from "./text.js";

const stateOf = (state, why) => t(`state.${state}`) + (has(`state.why.${why}`) ? ` (${t(`state.why.${why}`)})` : "");

// The entries of the audit log that have a text in each language.
const KNOWN = [
  [/^created$/, () => t("log.created")],
  [/^copied from (\S+)$/, (id) => t("log.copied", { id })],
  [/^added (\d+) units$/, (n) => t("log.added", { n: number(n) })],
  [/^(\w+) \((\w*)\) became (\w+) \((\w*)\)$/, (from, before, to, why) => t("log.became", { from: stateOf(from, before), to: stateOf(to, why) })],
  [/^cancelled order (\S+): (.*)$/s, (id, why) => t("log.cancelled", { id, why })],
  [/^refunded order (\S+), payment \S+: (.*)$/s, (id, why) => t("log.refunded", { id, why })],
  [/^edited product: (.*)$/s, (changes) => t("log.product", { changes })],
  [/^edited: (.*)$/s, (changes) => t("log.edited", { changes })],
  [/^recovers, epoch (\d+)$/, (epoch) => t("log.recovers", { epoch })],
  [/^recovered, epoch (\d+)$/, (epoch) => t("log.recovered", { epoch })],
];

// logged returns what an entry of the audit log says, in the language of the page if it is known.
export function logged(what) {
  for (const [form, text] of KNOWN) {
    const found = form.exec(what);
    if (found) return text(...found.slice(1));
  }
  return what;
}

// problem returns what prevents exposing a sale, in the language of the page if it is known.
export function problem(text) {
  const key = `check.${text.split(":")[0]}`;
  return has(key) ? t(key) : text;
}
