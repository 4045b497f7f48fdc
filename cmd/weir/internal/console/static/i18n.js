// Texts of the current language, and numbers and times in its form.

export const lang = document.documentElement.lang === "zh-CN" ? "zh" : "en";
const locale = lang === "zh" ? "zh-CN" : "en-GB";
const texts = await (await fetch(`text/${lang}.json`)).json();

// t returns a text with its {values} filled in.
export function t(key, values) {
  const text = texts[key];
  if (text === undefined) {
    console.error(`no text ${key}`);
    return key;
  }
  return values ? text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "") : text;
}

// word returns the text of a value of the API such as a mode, or the value itself.
export const word = (kind, value) => texts[`${kind}.${value}`] ?? String(value ?? "");

const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });
const two = new Intl.NumberFormat(locale, { maximumSignificantDigits: 2 });

export const count = (n) => (n == null ? "–" : whole.format(n));
export const rate = (n) => (n == null ? "–" : (n < 10 ? tenth : whole).format(n));
export const share = (x) => (x == null ? "–" : (x > 0 && x < 0.0005 ? "<" + tenth.format(0.1) : tenth.format(100 * x)) + "%");
export const ms = (x) => (x == null ? "–" : x >= 100 ? whole.format(x) : two.format(x));


// range returns two numbers as "38–41", or one if they are equal.
export const range = ([lo, hi], form = count) => (lo === hi ? form(lo) : `${form(lo)}–${form(hi)}`);

// duration returns milliseconds in the two largest units.
export function duration(msec) {
  if (msec == null) return "–";
  const s = msec / 1000;
  if (s < 1) return t("unit.ms", { n: whole.format(Math.ceil(msec)) });
  if (s < 10) return t("unit.s", { n: tenth.format(Math.ceil(s * 10) / 10) });
  if (s < 60) return t("unit.s", { n: whole.format(Math.ceil(s)) });
  if (s < 3600) return t("unit.min", { n: whole.format(Math.floor(s / 60)) }) + rest(s % 60, "unit.s");
  if (s < 86400) return t("unit.h", { n: whole.format(Math.floor(s / 3600)) }) + rest((s % 3600) / 60, "unit.min");
  return t("unit.d", { n: whole.format(Math.floor(s / 86400)) }) + rest((s % 86400) / 3600, "unit.h");
}

const rest = (n, unit) => (Math.floor(n) ? " " + t(unit, { n: Math.floor(n) }) : "");

const pad = (n, w = 2) => String(n).padStart(w, "0");

// clock returns the local time of day of an instant: a Date, Unix seconds or RFC 3339.
export function clock(at, millis) {
  const d = instant(at);
  return `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}` + (millis ? `.${pad(d.getMilliseconds(), 3)}` : "");
}

// moment returns the time of day of an instant, with the date unless it is today.
export function moment(at, millis) {
  const d = instant(at);
  const day = d.toDateString() === new Date().toDateString() ? "" : `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} `;
  return day + clock(d, millis);
}

export const instant = (at) => (at instanceof Date ? at : new Date(typeof at === "number" ? at * 1000 : at));

// offset returns the UTC offset of this device, such as UTC+8.
export function offset() {
  const m = -new Date().getTimezoneOffset();
  const sign = m < 0 ? "−" : "+";
  return "UTC" + (m === 0 ? "" : sign + Math.floor(Math.abs(m) / 60) + (m % 60 ? ":" + pad(Math.abs(m) % 60) : ""));
}
