// One checkpoint to be written: plain data, so that a thread can be sent it. May import types, ffi's shared memory.
import { bytesAt, type Place } from "../../../ffi/shared_memory.ts";
import { type ExitKind, UserError } from "../../errors.ts";
import { writePickled } from "../pt.ts";
import { linkOrCopy, removeOld } from "../retention.ts";
import { memoryStorage } from "../value.ts";

export interface Job {
  readonly path: string;
  readonly pickle: Uint8Array;
  /** What the pickle refers to, by number: memory that stays as it is until the job is done, or the bytes themselves. */
  readonly storages: readonly (Place | Uint8Array)[];
  /** Storages of f32 numbers that must be finite, by name. */
  readonly finite: readonly { readonly name: string; readonly storage: number }[];
  /** Names that the finished file gets beside its own. */
  readonly links: readonly string[];
  /** Checkpoints of single epochs to be removed when all that is done. */
  readonly retire: { readonly folder: string; readonly keep: number; readonly epoch: number } | null;
}

export interface Written {
  readonly bytes: number;
  readonly seconds: number;
}

/** Nothing replaces a good checkpoint before it was read back; nothing is removed before its successor is in place. */
export function write({ path, pickle, storages, finite, links, retire }: Job): Written {
  const began = performance.now();
  const bytes = storages.map((one) => one instanceof Uint8Array ? one : bytesAt(one));
  for (const { name, storage } of finite) refuseSpoilt(bytes[storage], name, path);
  const size = writePickled(path, { bytes: pickle, storages: bytes.map(memoryStorage) }, { verify: true });
  for (const link of links) linkOrCopy(path, link);
  if (retire) removeOld(retire.folder, retire.keep, retire.epoch);
  return { bytes: size, seconds: (performance.now() - began) / 1000 };
}

/** A step whose loss was finite can leave weights that are not: such a state never replaces a good checkpoint. */
function refuseSpoilt(bytes: Uint8Array, name: string, path: string): void {
  const numbers = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  let sum = 0;
  for (let i = 0; i < numbers.length; i++) sum += numbers[i] * 0; // 0, or NaN from there on
  if (sum === 0) return;
  throw new UserError(
    "numerics",
    `The weights are no longer finite (first such tensor: ${name}). Nothing was saved over ${path}. ` +
      "Try a lower --lr, --clip-norm 1, or a longer --warmup.",
  );
}

/** An error as plain data, and back. */
export interface Failure {
  readonly kind: ExitKind | null;
  readonly text: string;
}

export const failureOf = (error: unknown): Failure =>
  error instanceof UserError
    ? { kind: error.kind, text: error.message }
    : { kind: null, text: error instanceof Error ? error.stack ?? error.message : String(error) };

export const errorOf = ({ kind, text }: Failure): Error =>
  kind === null
    ? new Error(`internal: the thread that writes checkpoints: ${text}`)
    : new UserError(kind, text);
