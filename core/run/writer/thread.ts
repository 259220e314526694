// The writing thread of a run (a Worker's entry, without libtorch) writes events.jsonl, passes events to the
// outputs, and samples the machine. A slow disk holds this thread and no step. It sleeps between two looks,
// so it has no event loop.
import { cleanConsole } from "../../base/terminal.ts";
import { openEventFile, openLosses, reason, type RunPosition, SAMPLES } from "../event_log.ts";
import { decodeEvent, encodeEvent, type Event, type Note } from "../events.ts";
import { isWanted, type Sink, type SinkModule } from "../output.ts";
import { openSystem, type SystemLine } from "../system.ts";
import {
  EVENT,
  newStepNumbers,
  openPuller,
  POLL_MS,
  REWIND,
  STEP_NUMBERS,
  takeStepEvent,
  type ThreadMessage,
  type ThreadSetup,
} from "./ring.ts";
import type { ThreadScope } from "../../base/threads.ts";

declare const self: ThreadScope;

cleanConsole(); // each thread has its own console

/** Lines are joined up to this size. */
const BATCH = 256 * 1024;

const RENEW_MS = 1000;

const post = (message: ThreadMessage) => self.postMessage(message);

const warn = (warning: string) => post({ warning });

self.onmessage = async ({ data: setup }: MessageEvent<ThreadSetup>) => {
  const sinks = await openSinks(setup, warn);
  const { shared, mirror } = setup;
  const puller = openPuller(shared);
  const lines = setup.events === null ? null : openLines(setup.events, (lost) => puller.lose(lost));
  const tell = (message: string) => {
    const text = `warning: ${message}`;
    console.error(text); // the training thread may be too busy to print it
    for (const sink of sinks) sink.note({ kind: "console", t: Date.now() / 1000, stream: "stderr", text });
  };
  const system = setup.system && openSystem(setup.system, warn, tell);
  const decoder = new TextDecoder();
  const numbers = newStepNumbers(), stepBytes = new Uint8Array(numbers.numbers.buffer);

  const add = ({ bytes, line, event }: SystemLine) => {
    lines?.add(bytes);
    for (const sink of sinks) sink.event(event);
    if (mirror) post({ line });
  };
  const take = (kind: number, bytes: Uint8Array) => {
    if (kind === STEP_NUMBERS) {
      stepBytes.set(bytes);
      const event = takeStepEvent(numbers);
      lines?.addText(encodeEvent(event, event.t) + "\n");
      for (const sink of sinks) sink.event(event);
    } else if (kind === EVENT) {
      lines?.add(bytes);
      if (sinks.length > 0) {
        const text = decoder.decode(bytes.slice());
        for (const sink of sinks) sink.eventText(text);
      }
    } else if (kind === REWIND) {
      lines?.flush();
      lines?.rewind(JSON.parse(decoder.decode(bytes.slice())));
    } else if (sinks.length > 0) {
      const note = JSON.parse(decoder.decode(bytes.slice()));
      for (const sink of sinks) sink.note(note);
    }
  };
  do {
    // They come first, so that the run's exit, drained at the end, is its last line.
    for (const noted of system?.due(shared) ?? []) add(noted);
    puller.drain(take);
    lines?.flush();
    puller.wrote();
    if (!puller.ended()) puller.wait(POLL_MS);
  } while (!puller.ended());
  for (const sink of sinks) sink.close();
  system?.close();
  lines?.close();
  post({ ended: true });
};

interface Lines {
  add(line: Uint8Array): void;
  addText(line: string): void;
  flush(): void;
  rewind(to: RunPosition): void;
  close(): void;
}

/** All lines of a look are one write. */
function openLines(path: string, lose: (lines: number) => void): Lines {
  const losses = openLosses(path, warn);
  const file = openEventFile(path, (lines, cause) => {
    losses.lose(lines, cause);
    lose(lines);
  });
  const batch = new Uint8Array(BATCH), encoder = new TextEncoder();
  let filled = 0, looked = performance.now();
  const renew = () => {
    looked = performance.now();
    try {
      if (file.renew()) warn(`${path} was removed while the run writes it: what comes now is in a new one.`);
    } catch {
      // Later writes fail, which gives a warning.
    }
  };
  const flush = () => {
    if (filled === 0) return;
    if (performance.now() - looked > RENEW_MS) renew();
    file.append(batch.subarray(0, filled));
    filled = 0;
  };
  return {
    add(line) {
      if (filled + line.length > BATCH) flush();
      if (line.length > BATCH) return void file.append(line.slice());
      batch.set(line, filled);
      filled += line.length;
    },
    addText(line) {
      if (filled + 3 * line.length > BATCH) flush(); // UTF-8 takes at most three bytes a UTF-16 unit
      filled += encoder.encodeInto(line, batch.subarray(filled)).written;
    },
    flush,
    rewind(to) {
      const warning = rewindFile(path, file.forget, to);
      if (warning) warn(warning);
    },
    close: () => file.close(),
  };
}

interface GuardedSink {
  event(event: Event): void;
  eventText(line: string): void;
  note(note: Note): void;
  close(): void;
}

async function openSinks(
  { log, outputs }: ThreadSetup,
  warn: (message: string) => void,
): Promise<GuardedSink[]> {
  const sinks = log === null ? [] : [printed(log, warn)];
  for (const { name, module, setup, wants } of outputs) {
    try {
      const { openSink }: SinkModule = await import(module);
      const sink = guarded(`the ${name}`, openSink(setup), warn);
      sinks.push({ ...sink, note: (note) => isWanted(note, wants) && sink.note(note) });
    } catch (cause) {
      warn(`No ${name} is written (${reason(cause)}); training goes on without.`);
    }
  }
  return sinks;
}

function printed(path: string, warn: (message: string) => void): GuardedSink {
  const note = (note: Note) => {
    if (note.kind === "console") Deno.writeTextFileSync(path, `${note.text}\n`, { append: true });
  };
  return { ...guarded(path, { write() {}, note, close() {} }, warn), event() {}, eventText() {} };
}

/** A sink that fails gives warnings now and then. */
function guarded(what: string, sink: Sink, warn: (message: string) => void): GuardedSink {
  let failures = 0;
  let code: number | undefined;
  const trying = (act: () => void) => {
    try {
      act();
    } catch (cause) {
      failures++;
      if (!Number.isInteger(Math.log10(failures))) return;
      const records = failures === 1 ? "A record" : `${failures} records`;
      warn(`${records} of ${what} could not be written (${reason(cause)}); training goes on without.`);
    }
  };
  const event = (event: Event) => {
    if (event.kind === "exit") code = event.code;
    trying(() => sink.write(event));
  };
  return {
    event,
    eventText(line) {
      const decoded = decodeEvent(line);
      if (decoded !== null) event(decoded);
    },
    note: (note) => trying(() => sink.note?.(note)),
    close: () => trying(() => sink.close(code)),
  };
}

/** Returns a warning where the file can't be rewound. */
export function rewindFile(
  path: string,
  forget: (again: (line: string) => boolean) => void,
  to: RunPosition,
): string | null {
  try {
    forget((line) => comesAfter(line, to));
    return null;
  } catch (cause) {
    return `${path} could not be rewound to step ${to.step} (${
      reason(cause)
    }); it keeps the later records too.`;
  }
}

function comesAfter(line: string, to: RunPosition): boolean {
  const event = decodeEvent(line);
  if (event === null) return true; // the line was cut
  const { kind } = event;
  if (kind === "eval" || kind === "epoch") return event.step > to.step || event.epoch > to.epoch;
  return SAMPLES.has(kind) && "step" in event && Number(event.step) > to.step;
}
