import { call, local } from "./api.js";
import { h, put } from "./dom.js";
import { persist } from "./persist.js";
import { t } from "./text.js";

// A Work does the proof of work for a ticket in a worker, once: it is the same for this buyer
// and this sale in every request.
export class Work {
  #path;
  #key;
  #found = null; // a promise of the nonce, once the search has begun
  #state = ""; // doing, done or failed
  #text = h("p", { class: "hint", "aria-live": "polite", id: "work" });
  #bar = h("progress", { max: "1", "aria-label": t("work.progress") });

  constructor(sale) {
    this.#path = `/api/sales/${sale}/work`;
    this.#key = `fs.work.${sale}`;
    this.el = h("div", { class: "work" }, this.#text, this.#bar);
    this.#show("");
  }

  // nonce returns the nonce for a ticket request, or "" if none is required. The first
  // call starts the search.
  nonce() {
    this.#found ??= this.#look();
    return this.#found;
  }

  // again searches for another nonce after a refusal with {challenge, bits}.
  again(wanted) {
    local.set(this.#key, null);
    this.#found = this.#look(wanted);
    return this.#found;
  }

  async #look(wanted) {
    if (!wanted) {
      const answer = await persist(() => call("GET", this.#path), () => {});
      if (!answer.ok) {
        this.#found = null; // the next call tries again
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

// solve finds the nonce in a worker. The number of hashes is random: progress receives the
// probability that the nonce would have been found by now.
function solve(challenge, bits, progress) {
  return new Promise((done, fail) => {
    const worker = new Worker(new URL("./hash.js", import.meta.url));
    worker.onmessage = ({ data: { tried, nonce } }) => {
      if (nonce === undefined) {
        progress(1 - Math.exp(-tried / 2 ** bits));
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
