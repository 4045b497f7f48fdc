import { call } from "./api.js";
import { h } from "./dom.js";
import { persist } from "./persist.js";
import { t } from "./text.js";

// openSession gets a session, as a guest if the buyer has no identity. A guest gets a link to the
// sign-in, if there is one.
export async function openSession(report) {
  const answer = await persist(() => call("POST", "/api/session"), report);
  const { proof, sign_in: to } = answer.body ?? {};
  if (!answer.ok || document.getElementById("sign-in")) return answer;
  if (proof) {
    document.querySelector("nav").append(h("button", { type: "button", class: "plain", id: "sign-in", onclick: leave }, t("sign.out")));
  } else if (to) {
    const href = to.startsWith("/") ? `${to}?return=${encodeURIComponent(location.pathname)}` : to;
    document.querySelector("nav").append(h("a", { id: "sign-in", href }, t("sign.in")));
  }
  return answer;
}

async function leave() {
  await call("POST", "/api/logout");
  location.assign("/");
}
