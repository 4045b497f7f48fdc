import { why } from "./persist.js";
import { has, locale, number, t } from "./text.js";

// faultOf returns what is wrong with a field, in the language of the page. show formats a bound.
export const faultOf = (e, show = number) => t(has(`fault.${e.code}`) ? `fault.${e.code}` : "fault.form", { min: show(e.min ?? 0), max: show(e.max ?? 0) });

// faultsOf returns the fields of a refused request: [{field, code, min, max}…].
export const faultsOf = (answer) => (answer.status === 400 ? answer.body.errors ?? [] : []);

// refused returns why a request was refused, in the language of the page. label returns a field's
// name.
export function refused(answer, label = (field) => field) {
  const faults = faultsOf(answer);
  if (answer.reason === "conflict" && locale === "en" && answer.detail) return answer.detail;
  return faults.length > 0 ? faults.map((e) => `${label(e.field)}: ${faultOf(e)}`).join(" ") : why(answer);
}
