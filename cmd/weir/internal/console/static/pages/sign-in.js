import { h, Fragment } from "../lib/preact.js";
import { useState } from "../lib/hooks.js";
import { post } from "../api.js";
import { mount } from "../frame.js";
import { t } from "../i18n.js";
import { Fault, query } from "../ui.js";

function SignIn() {
  const [token, setToken] = useState("");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const submit = async (e) => {
    e.preventDefault();
    setBusy(true);
    try {
      await post("/v1/session", { token });
      const next = query("next");
      location.assign(/^[a-z-]+(\?|$)/.test(next) && !next.startsWith("sign-in") ? next : "overview"); // a page of the console only
    } catch (err) {
      setError(err);
      setBusy(false);
    }
  };
  return h(Fragment, null,
    h("div", { class: "heading" }, h("h1", null, t("nav.sign-in"))),
    h("form", { class: "form sign-in", onSubmit: submit },
      h("label", { class: "grow" }, t("signIn.token"), h("input", { type: "password", value: token, required: true, autofocus: true, autocomplete: "current-password", "aria-describedby": "wrong", onInput: (e) => setToken(e.target.value) })),
      h("button", { class: "primary", disabled: busy }, t("nav.sign-in"))),
    error && (error.status === 401 || error.status === 403 ? h("p", { class: "fault", role: "alert", id: "wrong" }, t("signIn.wrong"), " ", h("span", { class: "muted" }, error.message)) : h(Fault, { error, id: "wrong" })),
    h("p", { class: "muted" }, t("signIn.hint")));
}

mount("sign-in", SignIn, { stream: false });
