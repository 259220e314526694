// A report as one HTML file that asks for nothing: its style, its data and its script are in it, and its own rules forbid the
// rest. May import run_data (types), standing, version, its siblings.
import { VERSION } from "../../version.ts";
import type { RunData } from "../run_data.ts";
import { standingOf } from "../standing.ts";
import { chartData } from "./chart_data.ts";
import { comparison, differences } from "./compare.ts";
import { dateOf, heading, headline } from "./headline.ts";
import { escaped, Html, jsonText, markup } from "./html.ts";
import { samples } from "./samples.ts";
import { configuration, environment, warnings } from "./settings.ts";
import { attempts, rankTimes, timeOfRun } from "./time.ts";
import { uplot } from "../../../deps/uplot.ts";

/** `now` in Unix seconds. */
export async function reportPage(runs: readonly RunData[], now: number): Promise<string> {
  const standings = runs.map((run) => standingOf(run, now));
  const plots = uplot();
  const style = `${plots.style}\n${embeddedFile("page.css")}`;
  const scripts = [plots.script, embeddedFile("client.js")];
  const data = chartData(runs);
  const title = runs.map(({ name }) => name).join(", ");
  const theme = markup`<button type="button" id="theme" title="light or dark">Light / dark</button>`;
  const [first] = runs;
  const sections = runs.length === 1
    ? [
      heading(first, standings[0], theme),
      headline(first, standings[0]),
      charts([]),
      samples(first.folder),
      timeOfRun(first),
      rankTimes(first),
      attempts(first),
      warnings(first),
      configuration(first),
      environment(first),
    ]
    : [
      markup`<header><h1>${runs.length} runs compared</h1>${theme}</header>`,
      comparison(runs, standings),
      charts(runs.map(({ name }) => name)),
      differences(runs),
    ];
  const body = markup`${sections.map((section) => section && markup`${section}\n`)}
<footer>Made by hpctrain ${VERSION} on ${dateOf(now)}.</footer>`;
  const policy = [
    "default-src 'none'",
    "img-src data:",
    `style-src '${await hashOf(style)}'`,
    `script-src ${(await Promise.all(scripts.map(hashOf))).map((hash) => `'${hash}'`).join(" ")}`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
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
<script type="application/json" id="data">${jsonText(data)}</script>
${scripts.map((script) => `<script>${script}</script>`).join("\n")}
</body>
</html>
`;
}

/** Of several runs, each can be left out. */
function charts(names: readonly string[]): Html {
  const choice = names.map((name, i) =>
    markup`<label><input type="checkbox" checked data-run="${i}"><i class="swatch h${
      i % 8
    }"></i>${name}</label>`
  );
  return markup`<section id="curves"><h2>Curves</h2>
${choice.length > 0 ? markup`<div class="controls runs">${choice}</div>` : null}
<div class="controls"><label>Smoothing <input type="range" id="smoothing" min="0" max="100" value="45"></label>
<label><input type="checkbox" id="log">Logarithmic scale</label>
<button type="button" id="late">Last quarter</button><button type="button" id="whole" disabled>All steps</button>
<span>Drag over a chart to zoom in; faint are the values before smoothing, or their range.</span></div>
<noscript><p>The curves need JavaScript; the numbers do not.</p></noscript>
<div id="charts"></div><div id="machine"></div></section>`;
}

const embeddedFile = (name: string): string =>
  Deno.readTextFileSync(new URL(`./page/${name}`, import.meta.url)).trim();

/** What a policy knows a script or a style by. */
async function hashOf(text: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return `sha256-${digest.toBase64()}`;
}
