import { h } from "./dom.js";
import { jitter, pause, seen } from "./time.js";
import { about, has, number, t } from "./text.js";

// The reasons after which the same request may be repeated: it was not decided, too early or
// too much. A sale that starts in hours is not waited for here.
const again = (a) => a.retry !== null && (a.status === 0 || a.status === 429 || a.status >= 500 || (a.status === 425 && a.retry < 60_000));

// persist repeats a request until it is decided. It waits as long as the server requests, and
// longer each time up to most, and shows the wait. It stops when going returns false or after
// 30 attempts.
export async function persist(ask, report, going = () => true, most = 8000) {
  for (let i = 0; ; i++) {
    const answer = await ask();
    if (answer.ok || !again(answer) || i === 30 || !going()) {
      report("");
      return answer;
    }
    const end = performance.now() + jitter(Math.max(answer.retry, Math.min(most, 200 * 2 ** i)));
    for (let left = end - performance.now(); left > 0; left = end - performance.now()) {
      report(t("again.in", { why: why(answer), time: about(left) }));
      await pause(Math.min(left, 500));
      if (!going()) break;
    }
    await seen();
  }
}

// why returns the reason of a refusal in the language of the page.
export function why(answer) {
  const wrong = answer.reason === "invalid" && answer.body?.errors?.find((e) => has(e.field) && has(`fault.${e.code}`));
  if (wrong) return t("why.field", { field: t(wrong.field), fault: t(`fault.${wrong.code}`, { min: number(wrong.min ?? 0), max: number(wrong.max ?? 0) }) });
  if (has(`why.${answer.reason}`)) return t(`why.${answer.reason}`, { n: number(answer.body?.left ?? 0) });
  if (answer.status === 0) return t("why.unreachable");
  if (answer.status === 429) return t("why.too_many"); // a limit in front of the shop
  return answer.detail || t("why.other", { status: answer.status });
}

// sure asks for confirmation of a change that cannot be undone.
export function sure(question, yes, keep = t("sure.keep")) {
  return new Promise((done) => {
    const box = h("dialog", { class: "sure", "aria-labelledby": "sure-title", onclose: () => { done(box.returnValue === "yes"); box.remove(); } },
      h("h2", { id: "sure-title" }, question),
      h("div", { class: "row" },
        h("button", { type: "button", class: "quiet", id: "sure-keep", onclick: () => box.close("") }, keep),
        h("button", { type: "button", class: "main", id: "sure-yes", onclick: () => box.close("yes") }, yes)));
    document.body.append(box);
    box.showModal();
  });
}
