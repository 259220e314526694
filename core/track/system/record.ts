// System events of all ranks, in time: each rank's own; the first rank also passes on what the others leave in the run's
// folder. Where they see another folder, theirs stay there. May import its siblings, event types, ring.
import { join } from "../../../deps/path.ts";
import { reason } from "../event_file.ts";
import { decodeEvent, encodeEvent, type Event } from "../event_types.ts";
import { type Shared, stepIn } from "../thread/ring.ts";
import { openMemoryWatch } from "./memory_watch.ts";
import { openSampler, type SystemSetup } from "./sampler.ts";

/** An event, its line, and the line's bytes with their end. */
export interface Noted {
  readonly event: Event;
  readonly line: string;
  readonly bytes: Uint8Array;
}

export interface System {
  /** What there is to tell now, mostly nothing. */
  due(shared: Shared): Noted[];
  close(): void;
}

/** The first one comes soon, so that a short run has one too. */
const FIRST_S = 1;
/** Most bytes of another rank's file that are read at a time. */
const MOST = 64 * 1024;

/** What other ranks leave. */
const LEFT: ReadonlySet<string> = new Set(["system", "warning"]);

const encoder = new TextEncoder();

export const rankFile = (logs: string, rank: number): string => join(logs, `system-${rank}.jsonl`);

/** `tell` reaches the user even where the training thread does not come to listen. */
export function openSystem(
  setup: SystemSetup,
  warn: (message: string) => void,
  tell: (message: string) => void,
): System {
  const { rank, world, interval, logs } = setup;
  const sampler = openSampler(setup), memory = openMemoryWatch();
  const others = rank === 0 ? Array.from({ length: world - 1 }, (_, i) => follow(rankFile(logs, i + 1))) : [];
  const own = rank > 0 ? leave(rankFile(logs, rank), warn) : null;
  const whose = world > 1 ? { rank } : {};
  let next = performance.now() + 1000 * Math.min(FIRST_S, interval);
  return {
    due(shared) {
      const now = performance.now(), step = stepIn(shared), t = Date.now() / 1000;
      const little = memory.due(step), due = now >= next;
      if (little?.first) tell(little.event.message);
      if (due) next = now + 1000 * interval;
      const noted = [
        ...(little ? [{ t, ...whose, ...little.event }] : []),
        ...(due ? [{ t, ...sampler.sample(step) }] : []),
      ].map(notedOf);
      if (own === null) return due ? [...noted, ...others.flatMap((more) => more())] : noted;
      for (const { bytes } of noted) own(bytes);
      return [];
    },
    close: sampler.close,
  };
}

function notedOf(event: Event): Noted {
  const { t, ...told } = event;
  const line = encodeEvent(told, t);
  return { event, line, bytes: encoder.encode(line + "\n") };
}

/** Appends lines; a disk that refuses them is told of once. */
function leave(path: string, warn: (message: string) => void): (bytes: Uint8Array) => void {
  let told = false;
  return (bytes) => {
    try {
      Deno.writeFileSync(path, bytes, { append: true });
    } catch (cause) {
      if (!told) {
        warn(`${path} can't be written (${reason(cause)}): this rank's machine metrics are missing.`);
      }
      told = true;
    }
  };
}

/** Each call gives the system events that came since the last; what was there before is another attempt's. */
function follow(path: string): () => Noted[] {
  let at = sizeOf(path);
  return () => {
    const size = sizeOf(path);
    if (size < at) at = 0; // begun anew
    if (size === at) return [];
    const bytes = readAt(path, at, Math.min(MOST, size - at));
    const end = bytes.lastIndexOf(10) + 1;
    if (end === 0) {
      if (bytes.length === MOST) at += MOST; // not ours
      return [];
    }
    at += end;
    const lines = new TextDecoder().decode(bytes.subarray(0, end)).split("\n");
    return lines.map(decodeEvent).filter((event) => event !== null && LEFT.has(event.kind)).map((event) =>
      notedOf(event!)
    );
  };
}

function sizeOf(path: string): number {
  try {
    return Deno.statSync(path).size;
  } catch {
    return 0; // not there yet, or in a folder that only its own node sees
  }
}

function readAt(path: string, at: number, length: number): Uint8Array {
  try {
    using file = Deno.openSync(path);
    file.seekSync(at, Deno.SeekMode.Start);
    const bytes = new Uint8Array(length);
    return bytes.subarray(0, file.readSync(bytes) ?? 0);
  } catch {
    return new Uint8Array(0);
  }
}
