// What a run says on stdout and stderr: plain lines, warnings, the live line, or events as JSON. May import lines.ts and progress.ts.
import { clean } from "../terminal.ts";
import { stepLine, type StepState } from "./lines.ts";
import { openProgress, type ProgressLine } from "./progress.ts";

/** Where there is no live line, a line says where the run stands this often. */
const PLAIN_MS = 10_000;

export interface Console {
  /** A line of the run's story. Not with --quiet, not with --json. */
  line(text: string): void;
  /** The line that says how the run ended: --quiet keeps it. Not with --json. */
  final(text: string): void;
  /** To stderr, always: whoever reads stdout gets what they asked for and nothing else. */
  warn(text: string): void;
  /** Where the run stands: the live line on a terminal, a plain line now and then elsewhere. */
  progress(state: StepState): void;
  /** One encoded event, from the event log: --json prints it. */
  event(line: string): void;
  /** Takes the live line away. */
  close(): void;
}

export interface ConsoleOptions {
  quiet: boolean;
  json: boolean;
  isTerminal?: boolean;
  /** stdout; failures are swallowed here, because a closed pipe must not end a run. */
  write?: (text: string) => void;
  writeError?: (text: string) => void;
  columns?: () => number;
  now?: () => number;
  /** Hears of each line, also of those that are not shown; not of the live line. */
  told?: (text: string, stream: "stdout" | "stderr") => void;
  env?: (name: string) => string | undefined;
}

export function openConsole(options: ConsoleOptions): Console {
  const { quiet, json, told } = options;
  const env = options.env ?? ((name) => Deno.env.get(name));
  const now = options.now ?? (() => performance.now());
  const write = safely(options.write ?? ((text) => writeAll(Deno.stdout, text)));
  const writeError = safely(options.writeError ?? ((text) => writeAll(Deno.stderr, text)));

  // A terminal that can't erase a line gets plain lines. No colours anywhere, so NO_COLOR holds by itself.
  const capable = (options.isTerminal ?? Deno.stdout.isTerminal()) && env("TERM") !== "dumb";
  const live: ProgressLine | null = capable && !quiet && !json
    ? openProgress({ write, columns: options.columns ?? terminalColumns, now })
    : null;
  let plainAt = now();

  return {
    line(given) {
      const text = clean(given);
      told?.(text, "stdout");
      if (quiet || json) return;
      live?.clear();
      write(text + "\n");
    },
    final(given) {
      const text = clean(given);
      told?.(text, "stdout");
      if (json) return;
      live?.clear();
      write(text + "\n");
    },
    warn(given) {
      const text = clean(given);
      told?.(`warning: ${text}`, "stderr");
      live?.clear();
      writeError(`warning: ${text}\n`);
    },
    progress(state) {
      if (live) return live.update(state);
      if (quiet || json || now() - plainAt < PLAIN_MS) return;
      plainAt = now();
      const text = stepLine(state);
      told?.(text, "stdout");
      write(text + "\n");
    },
    event(line) {
      if (json) write(clean(line) + "\n");
    },
    close() {
      live?.clear();
    },
  };
}

function safely(write: (text: string) => void): (text: string) => void {
  return (text) => {
    try {
      write(text);
    } catch {
      // A reader that went away (`| head`) or a full disk behind a redirection: the run goes on.
    }
  };
}

function writeAll(to: typeof Deno.stdout | typeof Deno.stderr, text: string): void {
  const bytes = new TextEncoder().encode(text);
  for (let done = 0; done < bytes.length;) done += to.writeSync(bytes.subarray(done));
}

function terminalColumns(): number {
  try {
    return Deno.consoleSize().columns || 80;
  } catch {
    return 80;
  }
}
