// HTML that escapes every value, and bars of shares as SVG.
import { VERSION } from "../../base/version.ts";

export class Html {
  constructor(readonly text: string) {}
}

type Part = string | number | Html | readonly Part[] | null | false | undefined;

export function markup(strings: TemplateStringsArray, ...values: Part[]): Html {
  return new Html(strings.reduce((out, string, i) => out + textOf(values[i - 1]) + string));
}

function textOf(part: Part): string {
  if (part === null || part === undefined || part === false) return "";
  if (part instanceof Html) return part.text;
  return Array.isArray(part) ? part.map(textOf).join("") : escaped(String(part));
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/**
 * Replaces control characters, characters that reverse the direction of text, and halves of surrogate pairs.
 */
export const escaped = (text: string): string =>
  text.toWellFormed()
    // deno-lint-ignore no-control-regex
    .replace(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, "\ufffd")
    .replace(/[&<>"']/g, (character) => ENTITIES[character]);

/** Nothing in it ends the script element or opens a comment. */
export const scriptJson = (value: unknown): string =>
  JSON.stringify(value).replace(
    /[<>&\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

export interface BarShare {
  readonly name: string;
  readonly value: number;
  /** 8 is the faint colour. */
  readonly hue: number;
}

export function shareBar(shares: readonly BarShare[], whole: number): Html {
  let at = 0;
  const parts = shares.map(({ name, value, hue }) => {
    const width = whole > 0 ? Math.max(0, 1000 * value / whole) : 0;
    const part = markup`
      <rect class="h${hue}" x="${at.toFixed(1)}" y="0" width="${width.toFixed(1)}" height="18">
        <title>${name}</title>
      </rect>
    `;
    at += width;
    return part;
  });
  return markup`
    <svg class="bar" viewBox="0 0 1000 18" preserveAspectRatio="none" role="img" aria-label="${
    shares.map((
      { name },
    ) => name).join(", ")
  }">
      ${parts}
    </svg>
  `;
}

export const shareLegend = (shares: readonly Pick<BarShare, "name" | "hue">[]): Html =>
  markup`
    <p class="legend">${
    shares.map(({ name, hue }) =>
      markup`
        <span class="key"><i class="swatch h${hue}"></i>${name}</span>
      `
    )
  }</p>
  `;

/** The table sorts by the column whose head is pressed. */
export const headCell = (name: string, number = false): Html =>
  markup`<th scope="col"${
    number ? new Html(' class="number"') : null
  }><button type="button">${name}</button></th>`;

export function dateOf(seconds: number): string {
  const date = new Date(1000 * seconds);
  return Number.isNaN(date.getTime()) ? "?" : `${date.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/** A part of a page that is opened to be seen; null where it has nothing. */
export const foldedPart = (id: string, title: string, note: string, body: Html | null): Html | null =>
  body &&
  markup`<details id="${id}" class="part"><summary><h2>${title}</h2><span class="faint">${note}</span></summary>
${body}</details>`;

// A report as one HTML file that loads nothing: its content policy forbids it.

export const THEME = markup`<button type="button" id="theme" title="light or dark">Light / dark</button>`;

interface HtmlFile {
  readonly title: string;
  readonly sections: readonly (Html | null)[];
  /** It comes before the style that all reports have. */
  readonly style?: string;
  /** They come after the script that all reports have. */
  readonly scripts?: readonly string[];
  /** The scripts find it as JSON. */
  readonly data?: unknown;
  /** Unix seconds. */
  readonly now: number;
}

export async function htmlFile(
  { title, sections, style: before = "", scripts: more = [], data, now }: HtmlFile,
): Promise<string> {
  const style = `${before}\n${embeddedFile("page.css")}`.trim();
  const scripts = [embeddedFile("theme.js"), ...more];
  const body = markup`<main>${sections.map((section) => section && markup`${section}\n`)}</main>
<footer>Made by hpctrain ${VERSION} on ${dateOf(now)}.</footer>`;
  const policy = [
    "default-src 'none'",
    "img-src data:",
    `style-src '${await hashOf(style)}'`,
    `script-src ${(await Promise.all(scripts.map(hashOf))).map((hash) => `'${hash}'`).join(" ")}`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const json = data === undefined
    ? ""
    : `<script type="application/json" id="data">${scriptJson(data)}</script>\n`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${escaped(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="hpctrain ${VERSION}">
<title>${escaped(title)}</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
${body.text}
${json}${scripts.map((script) => `<script>${script}</script>`).join("\n")}
</body>
</html>
`;
}

export const embeddedFile = (name: string): string =>
  Deno.readTextFileSync(new URL(`./page/${name}`, import.meta.url)).trim();

/** The content policy allows a script or a style by its hash. */
async function hashOf(text: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return `sha256-${digest.toBase64()}`;
}

// The file that the report of a run has where nobody names another.

/** It leaves out what is no part of a file's name. */
export function reportFileName(name: string): string {
  return `${name.replace(/[^\w.+-]+/g, "_").replace(/^\.+/, "").slice(0, 100) || "report"}.html`;
}
