import { local } from "./api.js";
import { h } from "./dom.js";
import { t } from "./text.js";

const KEY = "fs.alert"; // whether the buyer wants sound and notifications
let sound = null;
let wanted = local.get(KEY) === true;

// A browser plays sound only after a click: a reloaded page prepares it at the first one.
document.addEventListener("click", () => wanted && prepare(), { once: true });

function prepare() {
  try {
    sound ??= new AudioContext();
    sound.resume();
  } catch (cause) {
    console.warn("no sound", cause);
  }
}

// alerts reports whether the buyer wants sound and notifications.
export const alerts = () => wanted;

// switchAlerts turns sound and notifications on or off, and asks the browser for permission.
export async function switchAlerts() {
  wanted = !wanted;
  local.set(KEY, wanted || null);
  if (!wanted) return;
  prepare();
  if ("Notification" in window && Notification.permission === "default") await Notification.requestPermission();
}

// alertBuyer plays two tones and shows a notification of a hidden page, if the buyer wants them.
export function alertBuyer(title, body) {
  if (!wanted) return;
  if (sound?.state === "running") [660, 880].forEach(tone);
  try {
    if (document.hidden && Notification.permission === "granted") {
      const n = new Notification(title, { body, tag: location.pathname, lang: document.documentElement.lang });
      n.onclick = () => { window.focus(); n.close(); };
    }
  } catch (cause) {
    console.warn("no notification", cause); // some phones allow them to service workers only
  }
}

function tone(hertz, i) {
  const at = sound.currentTime + 0.25 * i;
  const volume = new GainNode(sound, { gain: 0.2 });
  volume.gain.setValueAtTime(0.2, at);
  volume.gain.exponentialRampToValueAtTime(0.001, at + 0.24);
  const wave = new OscillatorNode(sound, { frequency: hertz });
  wave.connect(volume).connect(sound.destination);
  wave.start(at);
  wave.stop(at + 0.25);
}

// calendar returns a calendar file (RFC 5545) with a reminder five minutes before the start.
export function calendar(view, title, page) {
  const time = (text) => new Date(text).toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const escape = (text) => text.replaceAll(/[\\;,]/g, "\\$&").replaceAll(/\r\n|\r|\n/g, "\\n");
  const lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//flashsale//EN", "BEGIN:VEVENT", `UID:${view.id}@${new URL(page).host}`,
    `DTSTAMP:${time(view.starts_at)}`, `DTSTART:${time(view.starts_at)}`, `DTEND:${time(view.ends_at)}`, `SUMMARY:${escape(title)}`, `URL:${page}`,
    "BEGIN:VALARM", "ACTION:DISPLAY", "TRIGGER:-PT5M", `DESCRIPTION:${escape(title)}`, "END:VALARM", "END:VEVENT", "END:VCALENDAR"];
  return lines.map((line) => `${fold(line)}\r\n`).join("");
}

// fold breaks a line after at most 75 bytes, and not within a character.
function fold(line) {
  let out = "";
  let bytes = 0;
  for (const c of line) {
    const n = new TextEncoder().encode(c).length;
    if (bytes + n > 75) {
      out += "\r\n ";
      bytes = 1;
    }
    out += c;
    bytes += n;
  }
  return out;
}

// calendarLink returns a link that saves the calendar file. The page makes the file itself.
export function calendarLink(view, title) {
  return h("a", {
    id: "calendar", class: "button quiet", download: `sale-${view.id}.ics`,
    href: URL.createObjectURL(new Blob([calendar(view, title, location.href)], { type: "text/calendar" })),
  }, t("remind.calendar"));
}
