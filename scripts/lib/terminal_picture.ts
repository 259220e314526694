// Makes docs/screenshots/terminal-*.webp again, `watch` in a terminal beside a run that trains: `deno run -A
// scripts/lib/terminal_picture.ts`, with HPCTRAIN_CHROMIUM, HPCTRAIN_EXE and HPCTRAIN_TMUX set as for the tests.
import { join, toFileUrl } from "paths";
import { inBrowser } from "../../tests/integration/browser.ts";
import { eventsOf, inTemp, ROOT, start, until } from "../../tests/integration/program.ts";
import { inTerminal } from "../../tests/integration/terminal.ts";

const WIDTH = 96, HEIGHT = 26, QUALITY = 85;
const RUN =
  "--preset quickstart --train-samples 1920 --val-samples 120 --batch-size 16 --epochs 6 --log-interval 1 --run-name first"
    .split(" ");
/** The run is far enough to have curves. */
const STEPS = 300;

const ESCAPE = "\u001b";

interface Theme {
  readonly ground: string;
  readonly text: string;
  /** The first eight of a terminal's own colours. */
  readonly colours: readonly string[];
}

const THEMES: Readonly<Record<string, Theme>> = {
  light: {
    ground: "#ffffff",
    text: "#24292f",
    colours: ["#24292f", "#cf222e", "#116329", "#7d4e00", "#0550ae", "#8250df", "#1b7c83", "#6e7781"],
  },
  dark: {
    ground: "#0d1117",
    text: "#e6edf3",
    colours: ["#6e7681", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4"],
  },
};

/** A screen with a terminal's colours as a page. */
function pageOf(lines: readonly string[], { ground, text, colours }: Theme): string {
  let style = "";
  const styled = (codes: string) => {
    for (const code of codes.split(";").map(Number)) {
      if (code === 0) style = "";
      else if (code === 1) style += "font-weight:bold;";
      else if (code === 2) style += "opacity:0.65;";
      else if (code === 39) style += `color:${text};`;
      else if (code >= 30 && code <= 37) style += `color:${colours[code - 30]};`;
      else if (code >= 90 && code <= 97) style += `color:${colours[code === 90 ? 7 : code - 90]};`;
    }
  };
  const spanOf = (text: string): string => {
    const safe = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
    // Other fonts have other widths.
    return text && `<span style="${style}">${safe.replaceAll(/[^\x20-\x7e]/gu, "<i>$&</i>")}</span>`;
  };
  const body = lines.map((line) => {
    const [first, ...parts] = line.split(ESCAPE);
    return spanOf(first) + parts.map((part) => {
      const [all, codes] = /^\[([\d;]*)m/.exec(part) ?? ["", ""];
      if (all !== "") styled(codes || "0");
      return spanOf(part.slice(all.length));
    }).join("");
  }).join("\n");
  return `<!doctype html><meta charset="utf-8"><style>i { display: inline-block; width: 1ch; height: 1.3em; vertical-align: top; font-style: normal; overflow: hidden }</style>
<body style="margin:0;background:${ground};color:${text}">
<pre style="margin:16px;font:14px/1.3 'DejaVu Sans Mono',monospace">${body}</pre>
<script>document.documentElement.dataset.ready = "";</script>`;
}

await inTemp(async (cwd) => {
  const run = start(RUN, { cwd });
  const steps = () => eventsOf(cwd, "first").filter(({ kind }) => kind === "step").length;
  await until(`${STEPS} steps`, () => steps() > STEPS, 600);
  const command = `${Deno.realPathSync(Deno.env.get("HPCTRAIN_EXE")!)} watch first`;
  await inTerminal(cwd, { command, width: WIDTH, height: HEIGHT }, async (terminal) => {
    await terminal.shows("loss");
    const lines = await terminal.screen(true);
    await inBrowser(async (open) => {
      for (const [name, theme] of Object.entries(THEMES)) {
        const path = join(cwd, `${name}.html`);
        Deno.writeTextFileSync(path, pageOf(lines, theme));
        await open(toFileUrl(path).href, { width: 850, height: 505 }, async ({ send }) => {
          const { data } = await send("Page.captureScreenshot", { format: "webp", quality: QUALITY });
          Deno.writeFileSync(
            join(ROOT, `docs/screenshots/terminal-${name}.webp`),
            Uint8Array.fromBase64(data),
          );
        });
      }
    });
  });
  run.kill("SIGTERM");
  await run.output();
});
