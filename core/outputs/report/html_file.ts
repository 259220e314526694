// A report as one HTML file that loads nothing: its content policy forbids it.
import { VERSION } from "../../base/version.ts";
import { escaped, type Html, markup, scriptJson } from "./html.ts";
import { dateOf } from "./summary.ts";

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
