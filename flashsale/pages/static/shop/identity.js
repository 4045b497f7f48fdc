import { call } from "./api.js";
import { h } from "./dom.js";
import { persist } from "./persist.js";
import { t } from "./text.js";

let to = "";

// signIn returns where a guest signs in; empty for a member, or if there is no sign-in.
export const signIn = () => to;

let units = 0;

// limited returns a view with the units that this buyer may hold, as a guest perhaps fewer than
// members, whose number it keeps.
export const limited = (view) => ({ ...view, per_user: units > 0 ? Math.min(units, view.per_user) : view.per_user, per_member: view.per_user });

// openSession gets a session, as a guest if the buyer has no identity. A guest gets a link to the
// sign-in, if there is one.
export async function openSession(report) {
  const answer = await persist(() => call("POST", "/api/session"), report);
  if (answer.ok) units = answer.body.max_units ?? 0;
  if (!answer.ok || document.getElementById("sign-in")) return answer;
  const { proof, sign_in: page } = answer.body;
  if (proof) {
    document.querySelector("nav").append(h("button", { type: "button", class: "plain", id: "sign-in", onclick: leave }, t("sign.out")));
  } else if (page) {
    to = page.startsWith("/") ? `${page}?return=${encodeURIComponent(location.pathname)}` : page;
    document.querySelector("nav").append(h("a", { id: "sign-in", href: to }, t("sign.in")));
  }
  return answer;
}

async function leave() {
  await call("POST", "/api/logout");
  location.assign("/");
}
