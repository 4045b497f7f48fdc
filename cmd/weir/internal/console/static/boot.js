// Runs before the first paint: it sets the language and the theme of the document, so that
// neither changes while the page loads.
"use strict";
(() => {
  const stored = (name) => {
    try {
      return localStorage.getItem(name);
    } catch {
      return null; // storage is disabled
    }
  };
  const lang = stored("weir.lang") ?? (navigator.languages.find((l) => /^(zh|en)/i.test(l)) ?? "en").slice(0, 2);
  document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";
  const theme = stored("weir.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
