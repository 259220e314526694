// Who hears of a run's events beside events.jsonl. A sink that fails is told of now and then, and the others go on.
// May import track, errors.
import { reason } from "../event_file.ts";
import { decodeEvent, type Event } from "../event_types.ts";
import type { WandbSetup } from "../wandb/types.ts";
import type { ThreadSetup } from "./messages.ts";

export interface Sink {
  event(event: Event): void;
  /** The line of an event. */
  eventText(line: string): void;
  note(note: unknown): void;
  close(): void;
}

/** What a sink is made of. Anything in it may throw. */
export interface Writer {
  write(event: Event): void;
  note?(note: unknown): void;
  close(exitCode?: number): void;
}

export async function openSinks(setup: ThreadSetup, warn: (message: string) => void): Promise<Sink[]> {
  const log = setup.log === null ? [] : [printed(setup.log, warn)];
  if (setup.wandb === null) return log;
  const { openWandbRun } = await import("../wandb/run.ts"); // loaded where there is a run of it
  try {
    return [...log, guarded("the W&B run", openWandbRun(setup.wandb as WandbSetup) as Writer, warn)];
  } catch (cause) {
    warn(`No W&B run is written (${reason(cause)}); training goes on without.`);
    return log;
  }
}

/** The lines that a rank prints, in a file of its own. */
function printed(path: string, warn: (message: string) => void): Sink {
  const write = ({ kind, text }: { kind: string; text?: string }) => {
    if (kind === "console") Deno.writeTextFileSync(path, `${text}\n`, { append: true });
  };
  const lines = guarded(
    path,
    { write() {}, note: (note) => write(note as { kind: string }), close() {} },
    warn,
  );
  return { ...lines, event() {}, eventText() {} };
}

/** `what`: "the W&B run". */
export function guarded(what: string, writer: Writer, warn: (message: string) => void): Sink {
  let failures = 0;
  let code: number | undefined;
  const trying = (act: () => void) => {
    try {
      act();
    } catch (cause) {
      failures++;
      if (!Number.isInteger(Math.log10(failures))) return;
      const what_ = failures === 1 ? "A record" : `${failures} records`;
      warn(`${what_} of ${what} could not be written (${reason(cause)}); training goes on without.`);
    }
  };
  const event = (event: Event) => {
    if (event.kind === "exit") code = event.code;
    trying(() => writer.write(event));
  };
  return {
    event,
    eventText(line) {
      const decoded = decodeEvent(line);
      if (decoded !== null) event(decoded);
    },
    note: (note) => trying(() => writer.note?.(note)),
    close: () => trying(() => writer.close(code)),
  };
}
