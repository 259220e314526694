// Reads a .wandb file record by record, to its end or on while it grows. May import ../frames, contents.
import { type FrameEnd, readAtOf, readFrames } from "../frames.ts";
import type { Contents } from "./contents.ts";

export type Damage = NonNullable<FrameEnd["damage"]>;

export interface Reading {
  /** Takes records until it is enough, or there are no more: then it is true. */
  read(into: Contents, enough: () => boolean): boolean;
  /** From now on nothing is waited for: what is damaged is passed over. */
  last(): void;
  /** Another file lies at the path now: all that was read is to be read again. */
  replaced(): boolean;
  /** Whether bytes came since it was last asked. */
  grew(): boolean;
  readonly damages: readonly Damage[];
  /** What can't be read while more may come: it may yet be mended. */
  readonly stuck: Damage | null;
  /** Read so far, and in all. */
  readonly at: number;
  readonly size: number;
  /** Milliseconds since the file was last written to. */
  quietFor(): number;
  close(): void;
}

export function openReading(path: string, growing: boolean): Reading {
  const file = Deno.openSync(path);
  const { ino, dev } = file.statSync();
  const readAt = readAtOf(file);
  const damages: Damage[] = [];
  let at: number | undefined, lastSize = 0;
  let waits = growing;
  let stuck: Damage | null = null;

  return {
    damages,
    get stuck() {
      return stuck;
    },
    get at() {
      return at ?? 0;
    },
    get size() {
      return file.statSync().size;
    },
    read(into, enough) {
      const frames = readFrames(readAt, {
        from: at,
        resync: waits ? undefined : (damage) => damages.push(damage),
      });
      for (;;) {
        if (enough()) return false;
        const next = frames.next();
        if (next.done) {
          const { damage } = next.value;
          if (damage && !waits) damages.push(damage);
          stuck = waits && damage?.kind === "damaged" ? damage : null;
          return true;
        }
        const { record, start, end } = next.value;
        if (!into.take(record)) {
          damages.push({ kind: "damaged", at: start, why: "a record can't be read" });
        }
        at = end;
      }
    },
    last: () => void (waits = false),
    replaced() {
      try {
        const now = Deno.statSync(path);
        return now.ino !== ino || now.dev !== dev;
      } catch {
        return false; // gone: what is open can still be read
      }
    },
    grew() {
      const { size } = file.statSync();
      const more = size > lastSize;
      lastSize = size;
      return more;
    },
    quietFor: () => Date.now() - (file.statSync().mtime?.getTime() ?? 0),
    close: () => file.close(),
  };
}
