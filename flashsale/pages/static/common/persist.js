import { h } from "./dom.js";
import { jitter, pause, seen } from "./time.js";
import { about, has, t } from "./text.js";

// What may be asked again as it is: nobody decided, or it was too early or too much. A sale
// that starts in hours is not waited for here.
const again = (a) => a.retry !== null && (a.status === 0 || a.status === 429 || a.status >= 500 || (a.status === 425 && a.retry < 60_000));

// persist asks until it is decided, waits as long as the server says in between (and longer
// each time), tells how long, and gives up when going says so or after 30 times.
export async function persist(ask, tell, going = () => true) {
  for (let i = 0; ; i++) {
    const answer = await ask();
    if (answer.ok || !again(answer) || i === 30 || !going()) {
      tell("");
      return answer;
    }
    const end = performance.now() + jitter(Math.max(answer.retry, Math.min(8000, 200 * 2 ** i)));
    for (let left = end - performance.now(); left > 0; left = end - performance.now()) {
      tell(t("again.in", { why: why(answer), time: about(left) }));
      await pause(Math.min(left, 500));
      if (!going()) break;
    }
    await seen();
  }
}

// why says in the reader's language why something was refused.
export function why(answer) {
  if (has(`why.${answer.reason}`)) return t(`why.${answer.reason}`);
  if (answer.status === 0) return t("why.unreachable");
  if (answer.status === 429) return t("why.too_many"); // of a limit before the shop
  return answer.detail || t("why.other", { status: answer.status });
}

// sure asks before something that cannot be taken back.
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
