// What a page is to those who don't see it, don't use a mouse, or see little: its contrasts, names, headings and the
// order of its stops.
import type { Page } from "./browser.ts";

/**
 * Texts whose contrast is below what WCAG 2 asks for: 4.5, or 3 for large letters. Colours are computed by the browser,
 * backgrounds that are seen through are mixed.
 */
export const FAINT_TEXTS = `(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((part, i) => part * a + under[i] * (1 - a)).concat(1);
  const behind = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255, 1]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => part / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  let seen = 0;
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const of = text.parentElement, style = getComputedStyle(of), said = text.textContent.trim();
    if (said === "" || of.closest("script, style, noscript, :disabled") || !of.checkVisibility()) continue;
    seen++;
    const paper = behind(of), isSvg = of instanceof SVGElement;
    const ink = over(rgba(isSvg ? style.fill : style.color), paper);
    const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x), contrast = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && Number(style.fontWeight) >= 700;
    if (contrast < (large ? 3 : 4.5)) found.push(said.slice(0, 30) + ": " + contrast.toFixed(2));
  }
  return { seen, found };
})()`;

/** What is named by nothing, and headings that leave out a level. */
export const NAMELESS = `(() => {
  const named = (node) => (node.getAttribute("aria-label") ?? node.labels?.[0]?.textContent ?? node.textContent).trim() !== "";
  const wrong = [...document.querySelectorAll("button, input, select, a[href], summary, [role]")].filter((node) => !named(node))
    .map((node) => node.outerHTML.slice(0, 80));
  for (const image of document.querySelectorAll("img:not([alt])")) wrong.push(image.outerHTML.slice(0, 80));
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1) wrong.push("h" + level + " is followed by " + heading.outerHTML.slice(0, 60));
    level = own;
  }
  if (document.querySelectorAll("h1").length !== 1 || document.querySelectorAll("main").length !== 1) wrong.push("one h1 and one main");
  return wrong;
})()`;

/** The stops of the Tab key from the top on, each with its role and name. */
export async function stopsOf({ send, evaluate }: Page, most: number): Promise<string[]> {
  const stops: string[] = [];
  for (let i = 0; i < most; i++) {
    await press(send, "Tab");
    const stop = await evaluate<string | null>(`(() => {
      const at = document.activeElement;
      if (at === document.body) return null;
      const name = at.getAttribute("aria-label") ?? at.labels?.[0]?.textContent ?? at.textContent;
      return (at.getAttribute("role") || (at.type === "range" ? "slider" : at.type) || at.tagName.toLowerCase()) + " " + name.trim();
    })()`);
    if (stop === null) break;
    stops.push(stop);
  }
  return stops;
}

export async function press(send: Page["send"], key: string): Promise<void> {
  const code = { Tab: 9, ArrowLeft: 37, ArrowRight: 39, Home: 36, End: 35 }[key];
  for (const type of ["keyDown", "keyUp"]) {
    await send("Input.dispatchKeyEvent", { type, key, code: key, windowsVirtualKeyCode: code });
  }
}
