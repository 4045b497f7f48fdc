import { h } from "./dom.js";
import { locale, t } from "./text.js";

// The script of the widget and its public key, as configured; undefined without a captcha.
const { captcha: script, sitekey } = document.documentElement.dataset;

const TIMEOUT = 10_000; // of loading the script

// UNAVAILABLE is sent instead of a token if the widget fails. The server asks the provider about
// it: a provider that works refuses it, and without one the server requires work instead.
export const UNAVAILABLE = "unavailable";

// A Captcha shows the widget of a provider and holds its token until it is sent.
export class Captcha {
  on = Boolean(script);
  #action;
  #failed = false;
  #next = null; // a promise of the token that is sent next
  #stop = () => {}; // ends the wait of token
  #box = h("div", { id: "captcha" });

  constructor(sale) {
    this.#action = sale;
    this.el = h("section", { class: "card captcha", hidden: true, "aria-label": t("captcha") }, this.#box);
  }

  // show shows or hides the widget. A token can be solved before it is needed.
  show(on, prepares) {
    this.el.hidden = !on || this.#failed;
    if (on && prepares) this.#next ??= this.#solve();
  }

  // cancel ends the wait of token. The widget remains, and the next click waits for its token.
  cancel() {
    this.#stop(null);
  }

  // token returns a token, once, UNAVAILABLE, or null after cancel. After a failure it loads the
  // widget again.
  async token() {
    if (this.#failed) this.#next = null;
    this.#next ??= this.#solve();
    this.el.hidden = false;
    this.el.scrollIntoView({ block: "nearest" });
    const stopped = new Promise((stop) => { this.#stop = stop; });
    const token = await Promise.race([this.#next, stopped]);
    if (token !== null && !this.#failed) this.#next = null;
    return token;
  }

  #solve() {
    this.#failed = false;
    const options = {
      element: this.#box, siteKey: sitekey, action: this.#action, language: locale,
      theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
      expired: () => { if (this.#next === found) this.#next = null; },
    };
    const found = load().then(() => (window.flashsaleCaptcha ?? turnstileToken)(options)).then((token) => {
      if (typeof token !== "string" || token === "") throw new Error(`got ${token}, want a token`);
      return token;
    }).catch((cause) => {
      console.warn("the captcha has failed", cause);
      this.#failed = true;
      return UNAVAILABLE;
    });
    return found;
  }
}

let loading = null;

// load loads the script, again after a failure.
function load() {
  loading ??= new Promise((done, fail) => {
    setTimeout(fail, TIMEOUT, new Error(`${script} did not load in time`));
    document.head.append(h("script", { src: script, onload: done, onerror: () => fail(new Error(`${script} did not load`)) }));
  }).catch((cause) => {
    loading = null;
    throw cause;
  });
  return loading;
}

let widget; // the ID of Turnstile's widget

// turnstileToken draws a new widget of Turnstile and returns its token.
function turnstileToken({ element, siteKey, action, language, theme, expired }) {
  const { turnstile } = window;
  if (widget !== undefined) turnstile.remove(widget);
  return new Promise((done, fail) => {
    widget = turnstile.render(element, {
      sitekey: siteKey, action, language, theme, size: element.clientWidth < 300 ? "compact" : "flexible",
      callback: done, "expired-callback": expired, "refresh-expired": "never", retry: "never",
      "error-callback": (code) => { fail(new Error(`Turnstile: ${code}`)); return true; },
      "unsupported-callback": () => fail(new Error("Turnstile: the browser is not supported")),
    });
  });
}
