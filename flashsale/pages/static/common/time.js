import { call } from "./api.js";

// The server's clock, as this page knows it: the browser's monotonic clock, which nobody
// sets, and how far the server's is from it.
let offset = null;
let error = Infinity; // half of the round trip of the sample that offset is of
let taken = 0;

// now is the time of the server in milliseconds. Before the first sync it is unknown.
export const now = () => (offset === null ? NaN : offset + performance.now());

// sync asks the server for its time and takes half of the way there and back off. A sample
// that came slower than what is known is worse, unless that is old: clocks drift.
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

// keep syncs now, every 30 s while the page is seen, and when it is seen again: a device
// that slept may have stopped its clock.
export async function keep() {
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    taken = -Infinity;
    insist();
  });
  setInterval(() => document.hidden || sync(), 30_000);
  await insist();
}

// insist syncs until it is answered: a page whose clock is wrong says wrong things.
async function insist() {
  for (let i = 1; !(await sync()); i++) await pause(jitter(Math.min(8000, 700 * i)));
}

// pause waits for ms.
export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// jitter adds up to a quarter: pages that were told the same time do not come together.
export const jitter = (ms) => ms * (1 + Math.random() / 4);

// seen waits until the page is seen.
export function seen() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => document.addEventListener("visibilitychange", function shown() {
    if (document.hidden) return;
    document.removeEventListener("visibilitychange", shown);
    done();
  }));
}

// A Poll asks again and again: after what ask returns, in milliseconds, and some jitter. It
// stops while the page is hidden, and asks at once when it is seen again.
export class Poll {
  #ask;
  #timer = 0;
  #busy = false;
  #again = false;

  constructor(ask) {
    this.#ask = ask;
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.now();
    });
    addEventListener("pageshow", (e) => e.persisted && this.now());
  }

  // in asks after ms, and not before.
  in(ms) {
    if (this.#busy) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.now(), jitter(Math.max(100, ms)));
  }

  // now asks at once, or once more if it is asking.
  async now() {
    if (this.#busy) {
      this.#again = true;
      return;
    }
    clearTimeout(this.#timer);
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
    if (!document.hidden && wait !== Infinity) this.#timer = setTimeout(() => this.now(), jitter(Math.max(100, wait)));
  }
}
