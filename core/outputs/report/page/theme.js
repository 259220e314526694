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
  // Two pages of A4 between their margins, with some room for what is not cut in two. Letters get smaller until all fits.
  const WIDTH = 718, HEIGHT = 1.88 * 1039;
  function fitPaper() {
    for (let zoom = 1; zoom > 0.55; zoom -= 0.08) {
      document.body.style.width = `${WIDTH / zoom}px`;
      document.body.style.zoom = String(zoom);
      changed();
      if (document.body.offsetHeight * zoom <= HEIGHT) break;
    }
  }
  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    root.dataset.paper = "";
    fitPaper();
  });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    delete root.dataset.paper;
    document.body.removeAttribute("style");
    changed();
  });
  addEventListener("load", () => root.dataset.ready ??= String(Math.round(performance.now())));
})();
