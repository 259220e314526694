// Light and dark; paper is light. What is drawn by other scripts hears of a change by the event "theme".
(() => {
  "use strict";
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const changed = () => root.dispatchEvent(new Event("theme"));
  const themeNow = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = themeNow() === "dark" ? "light" : "dark";
    changed();
  });
  dark.addEventListener("change", changed);
  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    root.dataset.paper = "";
    changed();
  });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    delete root.dataset.paper;
    changed();
  });
  addEventListener("load", () => root.dataset.ready ??= String(Math.round(performance.now())));
})();
