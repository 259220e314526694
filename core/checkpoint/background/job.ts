// One checkpoint to be written: plain data, so that a thread can be sent it. May import the formats, ffi's shared memory.
import { bytesAt, type Place } from "../../../ffi/shared_memory.ts";
import { UserError } from "../../errors.ts";
import { readPickled, writePickled } from "../pt.ts";
import { linkOrCopy, removeOld } from "../retention.ts";
import { writeWhole } from "../safetensors_whole.ts";
import { ELSEWHERE, leaveWord, type Part, writePart } from "../sharded/part.ts";
import { type DType, memoryStorage, type Storage, TensorData } from "../value.ts";
import type { Sums, WriteOptions } from "../write_options.ts";
import type { Copy } from "./snapshot.ts";
import { leaveSums, makeCopies, sumOf, type Work, workOf } from "./team.ts";

interface Common {
  /** To be made before all else; whoever wants to change their sources waits for `copied`. */
  readonly copies: readonly Copy[];
  readonly copied: SharedArrayBuffer;
  readonly path: string;
  /** What is to be written, by number: memory that stays as it is until the job is done, or the bytes themselves. */
  readonly storages: readonly (Place | Uint8Array)[];
  /** Storages of f32 numbers that must be finite, by name. */
  readonly finite: readonly { readonly name: string; readonly storage: number }[];
  /** Names that the finished file gets beside its own. */
  readonly links: readonly string[];
  /** Checkpoints of single epochs to be removed when all that is done. */
  readonly retire: { readonly folder: string; readonly keep: number; readonly epoch: number } | null;
}

/** One file, with what the pickle refers to. The path's ending chooses the format. */
export interface FileJob extends Common {
  readonly pickle: Uint8Array;
}

/** A part of a checkpoint that all ranks write. */
export interface PartJob extends Common {
  readonly part: Part;
  readonly tensors: readonly Entry[];
  readonly metadata: Readonly<Record<string, string>>;
}

/** A tensor of the checkpoint, and whose file it goes into; another rank's has no storage here. */
export interface Entry {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly rank: number;
  readonly storage: number | null;
}

export type Job = FileJob | PartJob;

export interface Written {
  readonly bytes: number;
  readonly seconds: number;
}

/**
 * Nothing replaces a good checkpoint before it was read back; nothing is removed before its successor is in place.
 * `callHelp` has another thread do a part of the work.
 */
export function write(job: Job, callHelp?: (work: Work) => void): Written {
  const work = callHelp ? workOf(job.copies, job.storages) : null;
  if (work) callHelp!(work);
  try {
    return copyAndWrite(job, work);
  } catch (error) {
    if (work) leaveSums(work);
    if ("part" in job) leaveWord(job.path, job.part, error);
    throw error;
  }
}

function copyAndWrite(job: Job, work: Work | null): Written {
  const { path, storages, finite } = job;
  const began = performance.now();
  copy(job, work);
  const bytes = storages.map((one) => one instanceof Uint8Array ? one : bytesAt(one));
  for (const { name, storage } of finite) refuseSpoilt(bytes[storage], name, path);
  const contents = bytes.map(memoryStorage);
  const known = work ? sumsOf(work, storages, contents) : undefined;
  const failures: unknown[] = [];
  const ready = (temporary: string) => {
    try {
      nameAlso(job, temporary);
    } catch (error) {
      failures.push(error); // no reason to keep the old state in the path's place
    }
  };
  const size = "part" in job
    ? writeOwn(job, contents, { known, ready })
    : writeFile(job, contents, { known, ready });
  if (failures.length > 0) throw failures[0];
  return { bytes: size, seconds: (performance.now() - began) / 1000 };
}

/**
 * Before the path has it: a run that is killed between the two comes to this state again and names it again. The other way
 * round it would go on from here, and nobody would give the best and the epoch's checkpoint their names.
 */
function nameAlso(job: Job, temporary: string): void {
  const { path, links, retire } = job;
  for (const link of links) "part" in job ? linkOrCopy(path, link, temporary) : linkOrCopy(temporary, link);
  if (retire) removeOld(retire.folder, retire.keep, retire.epoch);
}

/** What is asked for a storage's SHA-256, by the storage. */
function sumsOf(work: Work, storages: Common["storages"], contents: readonly Storage[]): Sums {
  const numbers = new Map<unknown, number>(work.sum.map((place, i) => [place, i]));
  return new Map(contents.flatMap((content, i) => {
    const number = numbers.get(storages[i]);
    return number === undefined ? [] : [[content, () => sumOf(work, number)]];
  }));
}

type Options = Pick<WriteOptions, "known" | "ready">;

function writeFile({ path, pickle }: FileJob, storages: Storage[], more: Options): number {
  const state = { bytes: pickle, storages }, options = { verify: true, ...more };
  return path.endsWith(".safetensors")
    ? writeWhole(path, readPickled(state), options)
    : writePickled(path, state, options);
}

function writeOwn({ path, part, tensors, metadata }: PartJob, storages: Storage[], more: Options): number {
  const ranks = new Map(tensors.map(({ name, rank }) => [name, rank]));
  const data = tensors.map(({ name, dtype, shape, storage }) =>
    [name, new TensorData(dtype, shape, storage === null ? ELSEWHERE : storages[storage])] as const
  );
  return writePart(path, part, {
    tensors: new Map(data),
    metadata,
    rankOf: (name) => ranks.get(name)!,
    ...more,
  });
}

function copy({ copies, copied }: Job, work: Work | null): void {
  try {
    if (work) makeCopies(work);
    else for (const { from, to } of copies) bytesAt(to).set(bytesAt(from));
  } finally {
    const flag = new Int32Array(copied);
    Atomics.store(flag, 0, 1);
    Atomics.notify(flag, 0);
  }
}

/** Room for the flag of a job whose copies are made, and the wait for it. */
export const newFlag = (): SharedArrayBuffer => new SharedArrayBuffer(4);
export function awaitFlag(flag: SharedArrayBuffer): void {
  if (Atomics.wait(new Int32Array(flag), 0, 0, PATIENCE_MS) !== "timed-out") return;
  throw new Error("internal: the thread that writes checkpoints has not copied the state in ten minutes.");
}
const PATIENCE_MS = 600_000;

/** A step whose loss was finite can leave weights that are not: such a state never replaces a good checkpoint. */
function refuseSpoilt(bytes: Uint8Array, name: string, path: string): void {
  if (allFinite(new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4))) return;
  throw new UserError(
    "numerics",
    `The weights are no longer finite (first such tensor: ${name}). Nothing was saved over ${path}. ` +
      "Try a lower --lr, --clip-norm 1, or a longer --warmup.",
  );
}

/** Of f32 numbers as their bits. Those that are not finite have an exponent of ones, and carry into the sign. */
function allFinite(bits: Int32Array): boolean {
  const carry = (i: number) => (bits[i] & 0x7f800000) + 0x00800000;
  let found = 0, i = 0;
  for (const end = bits.length - 3; i < end; i += 4) {
    found |= carry(i) | carry(i + 1) | carry(i + 2) | carry(i + 3);
  }
  for (; i < bits.length; i++) found |= carry(i);
  return found >= 0;
}
