// A worker that finds a nonce for which the SHA-256 of challenge:nonce begins with the given
// number of zero bits. It receives {challenge, bits}. It posts {tried} repeatedly and {tried,
// nonce} at the end. The hash function of the browser returns a promise, which takes longer
// than a hash, so this file has its own for one block. It recomputes only what changes.
"use strict";

const K = new Int32Array(64);
const START = new Int32Array(8);

// The first 32 bits of the fractions of roots of the first primes (FIPS 180-4). They are exact,
// because a double has 53 bits.
for (let n = 2, i = 0; i < 64; n++) {
  let prime = true;
  for (let d = 2; d * d <= n; d++) if (n % d === 0) prime = false;
  if (!prime) continue;
  const fraction = (root) => ((root - Math.floor(root)) * 2 ** 32) | 0;
  if (i < 8) START[i] = fraction(Math.sqrt(n));
  K[i++] = fraction(Math.cbrt(n));
}

const HEX = Array.from("0123456789abcdef", (c) => c.charCodeAt(0));

// four returns 16 bits as a word of four hexadecimal digits.
const four = (n) => (HEX[n >>> 12] << 24) | (HEX[(n >>> 8) & 15] << 16) | (HEX[(n >>> 4) & 15] << 8) | HEX[n & 15];

const W = new Int32Array(64);
const S = new Int32Array(8);

// rounds applies rounds of SHA-256 to S.
function rounds(from, to) {
  let a = S[0], b = S[1], c = S[2], d = S[3], e = S[4], f = S[5], g = S[6], h = S[7];
  for (let i = from; i < to; i++) {
    const t = (h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + (g ^ (e & (f ^ g))) + K[i] + W[i]) | 0;
    const u = (((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + ((a & b) | (c & (a | b)))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t) | 0;
    d = c;
    c = b;
    b = a;
    a = (t + u) | 0;
  }
  S[0] = a; S[1] = b; S[2] = c; S[3] = d; S[4] = e; S[5] = f; S[6] = g; S[7] = h;
}

function schedule() {
  for (let i = 16; i < 64; i++) {
    const x = W[i - 15];
    const y = W[i - 2];
    W[i] = (W[i - 16] + ((x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ (x >>> 3)) + W[i - 7] + ((y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ (y >>> 10))) | 0;
  }
}

// search calls report every 2^15 hashes and returns the nonce: eight hexadecimal digits after
// as many zeros as align them to a word.
function search(challenge, bits, report) {
  let head = `${challenge}:`;
  const pad = "0".repeat((4 - (head.length % 4)) % 4);
  head += pad;
  if (head.length > 44) throw new Error(`a challenge of ${challenge.length} characters`);
  const at = head.length / 4; // the word where the digits begin
  W.fill(0);
  for (let i = 0; i < head.length; i++) W[i >> 2] |= head.charCodeAt(i) << (24 - 8 * (i & 3));
  W[at + 2] = 1 << 31;
  W[15] = (head.length + 8) * 8;
  S.set(START);
  rounds(0, at);
  const state = S.slice();
  for (let n = 0; n < 2 ** 32; n++) {
    W[at] = four(n >>> 16);
    W[at + 1] = four(n & 0xffff);
    schedule();
    S.set(state);
    rounds(at, 64);
    if (bits === 0 || (S[0] + START[0]) >>> (32 - bits) === 0) {
      report(n + 1, pad + n.toString(16).padStart(8, "0"));
      return;
    }
    if ((n & 0x7fff) === 0x7fff) report(n + 1);
  }
  throw new Error("no nonce");
}

onmessage = (e) => search(e.data.challenge, e.data.bits, (tried, nonce) => postMessage({ tried, nonce }));
