import { call, local } from "./api.js";
import { h, put } from "./dom.js";
import { persist } from "./persist.js";
import { t } from "./text.js";

// A Work does what a ticket of a sale costs, beside the page and once: it is the same for
// this buyer and this sale however often a ticket is asked for.
export class Work {
  #path;
  #key;
  #found = null; // a promise of the nonce, while it is looked for and then
  #state = ""; // doing, done or failed
  #text = h("p", { class: "hint", "aria-live": "polite", id: "work" });
  #bar = h("progress", { max: "1", "aria-label": t("work.progress") });

  constructor(sale) {
    this.#path = `/api/sales/${sale}/work`;
    this.#key = `fs.work.${sale}`;
    this.el = h("div", { class: "work" }, this.#text, this.#bar);
    this.#show("");
  }

  // nonce returns what a ticket is to be asked for with, or "" if there is none. The first call
  // begins to look for it.
  nonce() {
    this.#found ??= this.#look();
    return this.#found;
  }

  // again looks for another: that one was refused, with {challenge, bits}.
  again(wanted) {
    local.set(this.#key, null);
    this.#found = this.#look(wanted);
    return this.#found;
  }

  async #look(wanted) {
    if (!wanted) {
      const answer = await persist(() => call("GET", this.#path), () => {});
      if (!answer.ok) {
        this.#found = null; // the next call asks again
        return "";
      }
      wanted = answer.body;
    }
    const { challenge, bits } = wanted;
    if (typeof challenge !== "string" || !Number.isInteger(bits) || bits === 0) return "";
    const kept = local.get(this.#key);
    if (kept?.challenge === challenge && kept.bits >= bits) {
      this.#show("done");
      return kept.nonce;
    }
    this.#show("doing", 0);
    try {
      const nonce = await solve(challenge, bits, (done) => this.#show("doing", done));
      local.set(this.#key, { challenge, bits, nonce });
      this.#show("done");
      return nonce;
    } catch (cause) {
      console.warn("the work was not done", cause);
      this.#found = null;
      this.#show("failed");
      return "";
    }
  }

  #show(state, done = 1) {
    if (state !== this.#state) put(this.#text, state === "" ? "" : t(`work.${state}`));
    this.#state = state;
    this.#bar.value = done;
    this.#bar.hidden = state !== "doing";
  }
}

// solve lets a worker find the nonce. How many hashes that takes nobody knows: tell is told how
// likely it was to be found by now.
function solve(challenge, bits, tell) {
  return new Promise((done, fail) => {
    const worker = new Worker(new URL("./hash.js", import.meta.url));
    worker.onmessage = ({ data: { tried, nonce } }) => {
      if (nonce === undefined) {
        tell(1 - Math.exp(-tried / 2 ** bits));
        return;
      }
      worker.terminate();
      done(nonce);
    };
    worker.onerror = (e) => {
      e.preventDefault();
      worker.terminate();
      fail(new Error(e.message));
    };
    worker.postMessage({ challenge, bits });
  });
}
