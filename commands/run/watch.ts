// `hpctrain watch`: how a run stands, from its files, as they grow.
import { delay } from "../../deps/async.ts";
import { printColoured } from "../../core/base/terminal.ts";
import { parseOptions } from "../../core/settings/options.ts";
import { UserError } from "../../core/base/errors.ts";
import { jobState, withJob } from "../../core/cluster/jobs.ts";
import { findRun, NEWEST_RUN, openRun, type RunReader } from "../../core/run/run_data.ts";
import { hasEnded, progressOf, runStatusOf } from "../../core/run/status.ts";
import { newWarnings, plainLine, renderScreen, type WatchView } from "../../core/outputs/watch/screen.ts";
import { styleOf } from "../../core/base/terminal_text.ts";
import { leaveKeys, openScreen, readKeys, widthOf } from "../../core/outputs/watch/terminal.ts";
import { onSignal } from "../../ffi/signals.ts";
import { OPTIONS, USAGE } from "../watch.ts";

/** Seconds between two looks at the files. */
const ON_TERMINAL = 1;
const ON_PIPE = 10;
/** Also Escape, and Ctrl-C and Ctrl-D where they come as keys. */
const LEAVING = ["q", "Q", "\x1b", "\x03", "\x04"];
/** The screen of --once where there is no terminal; COLUMNS may say another width. */
const PAGE = { width: 80, height: 40 };

export async function watch(argv: string[]): Promise<number> {
  const { options, positionals } = parseOptions(argv, OPTIONS, USAGE);
  if (positionals.length > 1) {
    throw new UserError("usage", `watch takes one run, but got ${positionals.length}. Usage: ${USAGE}`);
  }
  const folder = findRun(positionals[0] ?? NEWEST_RUN, options["save-dir"]);
  const terminal = Deno.stdout.isTerminal() && Deno.env.get("TERM") !== "dumb";
  const seconds = secondsOf(options.interval) ?? (terminal ? ON_TERMINAL : ON_PIPE);
  const reader = openRun(folder, { sample: true });
  try {
    if (options.once) printOnce(reader, terminal);
    else if (terminal) await onTerminal(reader, seconds);
    else await onPipe(reader, seconds);
  } finally {
    reader.close();
  }
  return 0;
}

function secondsOf(text: string | undefined): number | null {
  if (text === undefined) return null;
  const seconds = Number(text);
  if (seconds >= 0.1 && seconds <= 86_400) return seconds;
  throw new UserError("usage", `--interval ${text}: give seconds between 0.1 and 86400, such as 5.`);
}

/** Reads what is new. */
function poll(reader: RunReader): WatchView {
  reader.poll();
  const now = Date.now() / 1000;
  return {
    data: reader.data,
    status: runStatusOf(reader.data, now),
    progress: progressOf(reader.data),
    now,
  };
}

function printOnce(reader: RunReader, terminal: boolean): void {
  const style = styleOf(terminal);
  const size = terminal ? openScreen().size() : { ...PAGE, width: widthOf(PAGE.width) };
  const lines = renderScreen(poll(reader), size.width, size.height - 1, style).slice(0, -1);
  while (lines.at(-1)?.trim() === "") lines.pop();
  printColoured(lines.map((line) => line.trimEnd()).join("\n"));
}

/** Lines now and then, until the run has ended. */
async function onPipe(reader: RunReader, seconds: number): Promise<void> {
  for (let printed = 0;;) {
    const view = poll(reader);
    for (const line of newWarnings(view, printed)) console.log(line);
    printed = view.data.warningCount;
    console.log(plainLine(view, Deno.stdout.isTerminal() ? widthOf(80) : Infinity));
    if (hasEnded(view.status.state)) {
      const job = view.data.lineage?.attempts.at(-1)?.job_id ?? null;
      const { why } = await withJob(view.status, job, job === null ? null : await jobState(job));
      console.log(`${why}.`);
      return;
    }
    if (view.status.state === "silent") console.log(`${view.status.why}.`);
    await delay(1000 * seconds);
  }
}

/** The full view, until somebody leaves it. */
async function onTerminal(reader: RunReader, seconds: number): Promise<void> {
  const style = styleOf(true), screen = openScreen();
  let leave = () => {};
  const left = new Promise<void>((resolve) => leave = resolve);
  const show = () => {
    const { width, height } = screen.size();
    screen.draw(renderScreen(poll(reader), width, height, style));
  };
  const again = () => {
    screen.stale();
    show();
  };
  const signals: [Deno.Signal, () => void][] = [
    ...(["SIGINT", "SIGTERM", "SIGHUP"] as const).map((name): [Deno.Signal, () => void] => [name, leave]),
    ["SIGWINCH", again],
    ["SIGCONT", again],
  ];
  const timer = setInterval(show, 1000 * seconds);
  const listening = signals.map(([name, act]) => onSignal(name, act));
  try {
    readKeys((key) => {
      if (LEAVING.includes(key)) leave();
    });
    show();
    await left;
  } finally {
    clearInterval(timer);
    listening.forEach((end) => end());
    leaveKeys();
    screen.close();
  }
}
