// The texts of the page in its language.
const lang = document.documentElement.dataset.lang;
const { default: words } = await import(`./text-${lang}.js`);

export const locale = lang === "zh" ? "zh-CN" : "en";

// t returns a text, with {names} in it replaced.
export function t(key, values = {}) {
  const text = words[key];
  if (text === undefined) {
    console.error(`no text for ${key}`);
    return key;
  }
  return text.replace(/\{(\w+)\}/g, (all, name) => (name in values ? String(values[name]) : all));
}

// one returns a text of a product in the language of the page, or in the other one.
export const one = (text) => text?.[lang] || text?.zh || text?.en || "";

// has reports whether a text exists.
export const has = (key) => key in words;

// money formats an amount in the smallest unit of a currency.
export function money(amount, currency) {
  try {
    const format = new Intl.NumberFormat(locale, { style: "currency", currency, currencyDisplay: "narrowSymbol" });
    return format.format(amount / 10 ** digits(currency));
  } catch {
    return `${amount} ${currency}`; // the browser does not know the currency
  }
}

// digits returns the number of decimal digits of a currency.
export function digits(currency) {
  try {
    return new Intl.NumberFormat(locale, { style: "currency", currency }).resolvedOptions().maximumFractionDigits;
  } catch {
    return 0;
  }
}

const counted = new Intl.NumberFormat(locale);
export const number = (n) => counted.format(n);

const percented = new Intl.NumberFormat(locale, { style: "percent" });
export const percent = (share) => percented.format(share);

const dated = new Intl.DateTimeFormat(locale, {
  month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});

// moment formats a time of the server in the time zone of the browser.
export const moment = (text) => dated.format(new Date(text));

// clockwise formats a remaining time like a clock, rounded up: 1 d 02:03:04 or 03:04.
export function clockwise(ms) {
  let s = Math.max(0, Math.ceil(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  const days = Math.floor(s / 86400);
  s -= days * 86400;
  const hours = Math.floor(s / 3600);
  const rest = `${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  if (days > 0) return `${t("time.days", { n: days })} ${two(hours)}:${rest}`;
  return hours > 0 ? `${two(hours)}:${rest}` : rest;
}

// about formats an approximate duration.
export const about = (ms) => between(ms, ms);

// between formats a range of durations in the unit of the longer one.
export function between(low, high) {
  const s = Math.ceil(high / 1000);
  if (s < 1) return t("time.moment");
  const [unit, length] = s < 100 ? ["seconds", 1] : s < 100 * 60 ? ["minutes", 60] : ["hours", 3600];
  const [from, to] = [Math.max(1, Math.ceil(low / 1000 / length)), Math.ceil(s / length)];
  return t(`time.${unit}`, { n: from < to ? `${from}–${to}` : to });
}
