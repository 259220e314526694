// The lines of a run on stdout and stderr as pure functions (scripts match them), a terminal's live line, and
// the console.
import { formatPlural } from "../base/format.ts";
import { withoutSecrets } from "../base/secrets.ts";
import { clean, cleanButColours } from "../base/terminal.ts";
import { styleOf, wrappedText } from "../base/terminal_text.ts";
import {
  epochLine,
  epochLineWithin,
  type EpochSummary,
  openProgressLine,
  type ProgressLine,
  stepLine,
  type StepState,
} from "./live_line.ts";
import type { RunGpuFacts } from "./events.ts";

export function startLine(world: { ranks: number; device: "cpu" | "cuda" }): string {
  const { ranks, device } = world;
  const where = device === "cuda"
    ? formatPlural(ranks, "GPU")
    : ranks === 1
    ? "1 CPU"
    : formatPlural(ranks, "CPU rank");
  return `Starting distributed training on ${where}`;
}

export function gpuLine(gpu: RunGpuFacts): string {
  const { name, capability, tf32, cudnn, cudnn_searches, channels_last, attention } = gpu;
  const parts = [
    `${tf32 ? "TF32" : "fp32"} products`,
    ...(cudnn === null ? [] : [`cuDNN ${cudnn}${cudnn_searches ? " searching its fastest kernels" : ""}`]),
    ...(channels_last === null ? [] : [`channels ${channels_last ? "last" : "first"}`]),
    ...(attention.length === 0 ? [] : [`${attention.join(" and ")} attention`]),
  ];
  return `GPU: ${name}, capability ${capability}; ${parts.join(", ")}`;
}

/** A console without a live line prints a plain one this often. */
const PLAIN_MS = 10_000;

export interface Console {
  /** --quiet and --json hide it. */
  line(text: string): void;
  /** The line of an epoch, which is cut to the width of a terminal; the live line knows its validation loss. */
  epoch(summary: EpochSummary): void;
  /** --quiet keeps it, and --json hides it. */
  final(text: string): void;
  /** It goes to stderr in every mode. */
  warn(text: string): void;
  progress(state: StepState): void;
  /** Only --json prints it. */
  event(line: string): void;
  close(): void;
}

export interface ConsoleOptions {
  quiet: boolean;
  json: boolean;
  isTerminal?: boolean;
  /** Warnings are folded to the width of a terminal. */
  errorIsTerminal?: boolean;
  /** A closed pipe must not end a run, so failures are ignored. */
  write?: (text: string) => void;
  writeError?: (text: string) => void;
  columns?: () => number;
  now?: () => number;
  /** It also gets lines that are not shown, but not the live line. */
  onLine?: (text: string, stream: "stdout" | "stderr") => void;
  env?: (name: string) => string | undefined;
}

export function openConsole(options: ConsoleOptions): Console {
  const { quiet, json, onLine } = options;
  const env = options.env ?? ((name) => Deno.env.get(name));
  const now = options.now ?? (() => performance.now());
  const write = safely(options.write ?? ((text) => writeAll(Deno.stdout, text)));
  const writeError = safely(options.writeError ?? ((text) => writeAll(Deno.stderr, text)));

  // A terminal that can't erase a line gets plain lines.
  const capable = (options.isTerminal ?? Deno.stdout.isTerminal()) && env("TERM") !== "dumb";
  const style = styleOf(capable, env), columns = options.columns ?? terminalColumns;
  const live: ProgressLine | null = capable && !quiet && !json
    ? openProgressLine({ write, columns: () => columns() || 80, style, now })
    : null;
  const errorFolds = options.errorIsTerminal ?? Deno.stderr.isTerminal();
  let plainAt = now();
  // Commands and paths are indented and are there to be copied.
  const fitting = (text: string, fold: boolean) => {
    const width = fold && !text.startsWith(" ") ? columns() : 0;
    return width > 0 ? wrappedText(text, width).join("\n") : text;
  };
  const fittingEpoch = (summary: EpochSummary, text: string) => {
    const width = capable ? columns() : 0;
    return width > 0 ? cleanButColours(epochLineWithin(summary, width, style)) : text;
  };

  return {
    line(given) {
      const text = cleaned(given);
      onLine?.(text, "stdout");
      if (quiet || json) return;
      live?.clear();
      write(fitting(text, capable) + "\n");
    },
    epoch(summary) {
      const text = clean(epochLine(summary));
      onLine?.(text, "stdout");
      live?.judged(summary.valLoss);
      if (quiet || json) return;
      live?.clear();
      write(fittingEpoch(summary, text) + "\n");
    },
    final(given) {
      const text = cleaned(given);
      onLine?.(text, "stdout");
      if (json) return;
      live?.clear();
      write(fitting(text, capable) + "\n");
    },
    warn(given) {
      const text = `warning: ${cleaned(given)}`;
      onLine?.(text, "stderr");
      live?.clear();
      writeError(fitting(text, errorFolds) + "\n");
    },
    progress(state) {
      if (live) return live.update(state);
      if (quiet || json || now() - plainAt < PLAIN_MS) return;
      plainAt = now();
      const text = stepLine(state);
      onLine?.(text, "stdout");
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

/** Data that a server has may be named with a key. */
const cleaned = (text: string): string => withoutSecrets(clean(text));

function safely(write: (text: string) => void): (text: string) => void {
  return (text) => {
    try {
      write(text);
    } catch {
      // The reader may be gone (`| head`) or the disk full: the run continues.
    }
  };
}

function writeAll(to: typeof Deno.stdout | typeof Deno.stderr, text: string): void {
  const bytes = new TextEncoder().encode(text);
  for (let done = 0; done < bytes.length;) done += to.writeSync(bytes.subarray(done));
}

/** 0 where nobody knows: mpirun gives its ranks terminals without a size, whose lines end up in logs. */
function terminalColumns(): number {
  try {
    return Deno.consoleSize().columns;
  } catch {
    return 0;
  }
}
