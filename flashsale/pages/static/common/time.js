import { call } from "./api.js";

// The server's clock as the page knows it: the monotonic clock of the browser, which cannot be
// set, and its offset to the server.
let offset = null;
let error = Infinity; // half of the round trip of the sample for offset
let taken = 0;

// now returns the time of the server in milliseconds. It is unknown before the first sync.
export const now = () => (offset === null ? NaN : offset + performance.now());

// sync reads the server's time and subtracts half of the round trip. A slower sample is
// ignored, unless the last one is old: clocks drift.
export async function sync() {
  const sent = performance.now();
  const answer = await call("GET", "/api/time");
  const came = performance.now();
  const half = (came - sent) / 2;
  if (answer.ok && (half <= error || came - taken > 120_000)) {
    offset = Date.parse(answer.body.now) + half - came;
    error = half;
    taken = came;
  }
  return answer.ok;
}

// keep syncs now, every 30 s while the page is visible, and when it becomes visible: the clock
// of a sleeping device may stop.
export async function keep() {
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    taken = -Infinity;
    insist();
  });
  setInterval(() => document.hidden || sync(), 30_000);
  await insist();
}

// insist repeats sync until it succeeds, because a page with a wrong clock shows wrong times.
async function insist() {
  for (let i = 1; !(await sync()); i++) await pause(jitter(Math.min(8000, 700 * i)));
}

// pause waits for ms milliseconds.
export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// jitter adds up to a quarter, so that pages with the same start do not send requests together.
export const jitter = (ms) => ms * (1 + Math.random() / 4);

// seen waits until the page is visible.
export function seen() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => document.addEventListener("visibilitychange", function shown() {
    if (document.hidden) return;
    document.removeEventListener("visibilitychange", shown);
    done();
  }));
}

// Timers for pages that work while they are hidden: see tick.js.
let ticker = null;
let lastTick = 0;
const ticks = new Map();

// later calls a function after ms milliseconds, also while the page is hidden.
export function later(ms, call) {
  if (!ticker) {
    ticker = new Worker(new URL("./tick.js", import.meta.url));
    ticker.onmessage = ({ data }) => {
      const due = ticks.get(data);
      ticks.delete(data);
      due?.();
    };
  }
  ticks.set(++lastTick, call);
  ticker.postMessage({ id: lastTick, ms });
  return lastTick;
}

// A Poll repeats a request after the time in milliseconds that ask returns, plus jitter. It
// stops while the page is hidden, unless keeps returns true, and continues at once when it is
// visible.
export class Poll {
  #ask;
  #keeps;
  #timer = 0;
  #tick = 0;
  #busy = false;
  #again = false;

  constructor(ask, keeps = () => false) {
    this.#ask = ask;
    this.#keeps = keeps;
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.now();
    });
    addEventListener("pageshow", (e) => e.persisted && this.now());
  }

  // in polls after ms, and not before.
  in(ms) {
    if (!this.#busy) this.#schedule(ms);
  }

  #clear() {
    clearTimeout(this.#timer);
    ticks.delete(this.#tick);
  }

  #schedule(ms) {
    this.#clear();
    const wait = jitter(Math.max(100, ms));
    if (this.#keeps()) this.#tick = later(wait, () => this.now());
    else this.#timer = setTimeout(() => this.now(), wait);
  }

  // now polls at once, or once more if a request is in progress.
  async now() {
    if (this.#busy) {
      this.#again = true;
      return;
    }
    this.#clear();
    this.#busy = true;
    let wait = 5000;
    try {
      do {
        this.#again = false;
        wait = await this.#ask();
      } while (this.#again);
    } finally {
      this.#busy = false;
    }
    if ((!document.hidden || this.#keeps()) && wait !== Infinity) this.#schedule(wait);
  }
}
