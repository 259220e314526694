// The user's command for alerts gets events as JSON on its input. It runs beside training, one call at a
// time, and is killed when it takes too long.
import { messageOf } from "../../base/errors.ts";
import type { Emitted } from "../../run/events.ts";

interface AlertOptions {
  /** /bin/sh runs it. */
  readonly command: string;
  readonly run: string;
  readonly logs: string;
  warn(message: string): void;
  readonly limitMs?: number;
}

interface Alerts {
  observe(event: Emitted, t: number): void;
  /** Resolves when all alerts are sent or have failed. */
  close(): Promise<void>;
}

const LIMIT_MS = 30_000;
/** The end of a run has 30 s (core/train/leaving_bound.ts), and the command some of them. */
const CLOSE_MS = 20_000;
/** Alerts beyond these are only counted. */
const MOST = 32;
const STOPPED = 75;

/** Null where an event needs no alert. */
export function alertOf(event: Emitted): string | null {
  switch (event.kind) {
    case "warning":
      return event.about === "spike" ? "spike" : event.about === "save" ? "save_failed" : "warning";
    case "exit":
      return event.code === STOPPED ? "stop" : "exit";
    default:
      return null;
  }
}

export function openAlerts(options: AlertOptions): Alerts {
  const { run, logs, warn, command, limitMs = LIMIT_MS } = options;
  const waiting: string[] = [];
  let working: Promise<void> | null = null;
  const over = new AbortController();
  let dropped = 0, failed = false;

  const send = async (text: string) => {
    const why = await call(command, text, limitMs, over.signal);
    if (why === null || failed) return;
    failed = true;
    warn(`The command of --on-event ${why}: ${command}`);
  };
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await send(next);
    working = null;
  };
  return {
    observe(event, t) {
      const name = alertOf(event);
      if (name === null) return;
      // The end is worth more than a warning.
      if (waiting.length >= MOST && name !== "exit" && name !== "stop") return void dropped++;
      waiting.push(JSON.stringify({ event: name, run, logs, t, ...event }, finite) + "\n");
      working ??= work();
    },
    async close() {
      const timer = setTimeout(() => {
        dropped += waiting.length;
        waiting.length = 0;
        over.abort();
      }, Math.min(2 * limitMs, CLOSE_MS));
      await working;
      clearTimeout(timer);
      if (dropped > 0) {
        warn(`${dropped} alerts were left out: the command of --on-event is slower than they come.`);
      }
    },
  };
}

const finite = (_: string, value: unknown) =>
  typeof value === "number" && !Number.isFinite(value) ? String(value) : value;

/** Returns the reason of a failure. Stdout is kept for the run's lines. */
async function call(
  command: string,
  input: string,
  limitMs: number,
  over: AbortSignal,
): Promise<string | null> {
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command("/bin/sh", {
      args: ["-c", command],
      stdin: "piped",
      stdout: "null",
      stderr: "inherit",
      detached: true, // its own group, so that all it has started can be ended
    }).spawn();
  } catch (error) {
    return `can't be started (${messageOf(error)})`;
  }
  let killed: string | null = null;
  const end = (why: string) => {
    killed ??= why;
    kill(child.pid);
  };
  const timer = setTimeout(() => end(`took longer than ${limitMs / 1000} s and was ended`), limitMs);
  const giveUp = () => end("was still at it when the end of the run had waited long enough, and was ended");
  over.addEventListener("abort", giveUp);
  const writer = child.stdin.getWriter();
  writer.write(new TextEncoder().encode(input)).then(() => writer.close()).catch(() => {}); // it need not read
  const { code } = await child.status;
  clearTimeout(timer);
  over.removeEventListener("abort", giveUp);
  if (killed !== null) return killed;
  return code === 0 ? null : `ended with code ${code}`;
}

function kill(pid: number): void {
  for (const target of [-pid, pid]) {
    try {
      Deno.kill(target, "SIGKILL");
    } catch {
      // gone already
    }
  }
}
