import { locale } from "./text.js";

// country returns the name of a country or region in the language of the page.
export function country(code) {
  try {
    return new Intl.DisplayNames(locale, { type: "region" }).of(code) ?? code;
  } catch {
    return code;
  }
}

// address returns the address of a contact in one line, in the order of the language of the
// page; empty if there is none.
export function address(contact) {
  if (!contact?.country) return "";
  const { city, street, street2, postal } = contact;
  const joined = (parts, by) => parts.filter(Boolean).join(by);
  return locale === "zh-CN" ? joined([country(contact.country), city, street, street2, postal], " ")
    : joined([street, street2, joined([city, postal], " "), country(contact.country)], ", ");
}
