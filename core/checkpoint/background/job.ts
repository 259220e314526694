// One checkpoint to write, as plain data for a thread. Two threads share its copies and SHA-256 sums. Never imports
// libtorch.
import { bytesAt, type MemoryBlock } from "../../../ffi/libc.ts";
import { UserError } from "../../base/errors.ts";
import { readPickled, writePickled } from "../pt.ts";
import { ELSEWHERE, linkOrCopy, type Part, removeOld, reportFailure, writePart } from "../sharded_writer.ts";
import { writeWhole } from "../safetensors_writer.ts";
import {
  type DType,
  memoryStorage,
  type Storage,
  type Sums,
  TensorData,
  type WriteOptions,
} from "../value.ts";
import type { Copy } from "./writer.ts";
import { createHash } from "node:crypto";

// One checkpoint to be written: plain data, so that a thread can be sent it.

interface Common {
  /** To be made before all else; whoever wants to change their sources waits for `copied`. */
  readonly copies: readonly Copy[];
  readonly copied: SharedArrayBuffer;
  readonly path: string;
  /** What is to be written, by number: memory that stays as it is until the job is done, or the bytes themselves. */
  readonly storages: readonly (MemoryBlock | Uint8Array)[];
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

export type SaveJob = FileJob | PartJob;

export interface Written {
  readonly bytes: number;
  readonly seconds: number;
}

/**
 * Nothing replaces a good checkpoint before it was read back; nothing is removed before its successor is in place.
 * `callHelp` has another thread do a part of the work.
 */
export function writeCheckpoint(job: SaveJob, callHelp?: (work: SharedWork) => void): Written {
  const work = callHelp ? workOf(job.copies, job.storages) : null;
  if (work) callHelp!(work);
  try {
    return copyAndWrite(job, work);
  } catch (error) {
    if (work) leaveSums(work);
    if ("part" in job) reportFailure(job.path, job.part, error);
    throw error;
  }
}

function copyAndWrite(job: SaveJob, work: SharedWork | null): Written {
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
function nameAlso(job: SaveJob, temporary: string): void {
  const { path, links, retire } = job;
  for (const link of links) "part" in job ? linkOrCopy(path, link, temporary) : linkOrCopy(temporary, link);
  if (retire) removeOld(retire.folder, retire.keep, retire.epoch);
}

/** What is asked for a storage's SHA-256, by the storage. */
function sumsOf(work: SharedWork, storages: Common["storages"], contents: readonly Storage[]): Sums {
  const numbers = new Map<unknown, number>(work.sum.map((place, i) => [place, i]));
  return new Map(contents.flatMap((content, i) => {
    const number = numbers.get(storages[i]);
    return number === undefined ? [] : [[content, () => digestFor(work, number)]];
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

function copy({ copies, copied }: SaveJob, work: SharedWork | null): void {
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
  if (Atomics.wait(new Int32Array(flag), 0, 0, STEP_PATIENCE_MS) !== "timed-out") return;
  throw new Error("internal: the thread that writes checkpoints has not copied the state in ten minutes.");
}
const STEP_PATIENCE_MS = 600_000;

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

// What two threads do together of one checkpoint: copies, and the SHA-256 of what is written. Whoever is free takes
// the next piece; it takes as long as all the rest.

/** Plain data, so that the other thread can be sent it. */
export interface SharedWork {
  readonly copies: readonly Copy[];
  /** Whose sums are made, when all copies are. */
  readonly sum: readonly MemoryBlock[];
  /** Counters, flags and room for the sums: see `boardOf`. */
  readonly board: SharedArrayBuffer;
}

const SUM_BYTES = 32;
/** A thread that costs some megabytes is not worth it for less. */
const LEAST_BYTES = 32 << 20;
/** Copies are shared out in pieces of this, so that both threads end at the same time. */
const PIECE_BYTES = 8 << 20;
/** Without a sum for this long the other thread is taken to be gone, and the sum made here. */
const HELP_PATIENCE_MS = 10_000;

// The counters: the next copy, copies made, the next sum.
const NEXT_COPY = 0, COPIED = 1, NEXT_SUM = 2, COUNTERS = 3;

/** `ready` has a flag for each sum. */
function boardOf({ board, sum }: SharedWork) {
  const words = COUNTERS + sum.length;
  return {
    counters: new Int32Array(board, 0, COUNTERS),
    ready: new Int32Array(board, 4 * COUNTERS, sum.length),
    sums: new Uint8Array(board, 4 * words, SUM_BYTES * sum.length),
  };
}

/** Whether a second thread is worth it. */
export const isLarge = (places: readonly MemoryBlock[]): boolean =>
  places.reduce((all, { bytes }) => all + bytes, 0) >= LEAST_BYTES;

/** Null where one thread does it as well. */
export function workOf(
  copies: readonly Copy[],
  storages: readonly (MemoryBlock | Uint8Array)[],
): SharedWork | null {
  const sum = storages.filter((one): one is MemoryBlock => !(one instanceof Uint8Array));
  if (!isLarge(sum)) return null;
  const board = new SharedArrayBuffer(4 * (COUNTERS + sum.length) + SUM_BYTES * sum.length);
  return { copies: copies.flatMap(piecesOf), sum, board };
}

function piecesOf({ from, to }: Copy): Copy[] {
  const count = Math.max(1, Math.ceil(from.bytes / PIECE_BYTES));
  return Array.from({ length: count }, (_, i) => {
    const at = i * PIECE_BYTES, bytes = Math.min(PIECE_BYTES, from.bytes - at);
    const piece = ({ address }: MemoryBlock) => ({ address: address + BigInt(at), bytes });
    return { from: piece(from), to: piece(to) };
  });
}

/** What the second thread does. */
export function help(work: SharedWork): void {
  if (makeCopies(work, HELP_PATIENCE_MS)) makeSums(work);
}

/**
 * Comes to its end when all are made, the other thread's too: until then what they are made of must not change, so
 * whoever has it to change waits without end. False is for one who has not.
 */
export function makeCopies(work: SharedWork, patience = Infinity): boolean {
  const { copies } = work, { counters } = boardOf(work);
  for (let i = Atomics.add(counters, NEXT_COPY, 1); i < copies.length;) {
    bytesAt(copies[i].to).set(bytesAt(copies[i].from));
    Atomics.add(counters, COPIED, 1);
    Atomics.notify(counters, COPIED);
    i = Atomics.add(counters, NEXT_COPY, 1);
  }
  for (let made = 0; (made = Atomics.load(counters, COPIED)) < copies.length;) {
    if (Atomics.wait(counters, COPIED, made, patience) === "timed-out") return false;
  }
  return true;
}

/** Nobody needs the sums that are not begun with. */
export function leaveSums(work: SharedWork): void {
  Atomics.store(boardOf(work).counters, NEXT_SUM, work.sum.length);
}

/** Makes those that nobody has begun with. */
export function makeSums(work: SharedWork): void {
  const { sum } = work, { counters, ready, sums } = boardOf(work);
  for (let i = Atomics.add(counters, NEXT_SUM, 1); i < sum.length; i = Atomics.add(counters, NEXT_SUM, 1)) {
    sums.set(digestOf(sum[i]), SUM_BYTES * i);
    Atomics.store(ready, i, 1);
    Atomics.notify(ready, i);
  }
}

/** The SHA-256 of one of the places in `sum`; helps to make them until none is left. */
export function digestFor(work: SharedWork, number: number, patience = HELP_PATIENCE_MS): string {
  makeSums(work);
  const { ready, sums } = boardOf(work);
  const there = Atomics.wait(ready, number, 0, patience) !== "timed-out";
  return hex(
    there ? sums.subarray(SUM_BYTES * number, SUM_BYTES * (number + 1)) : digestOf(work.sum[number]),
  );
}

const digestOf = (place: MemoryBlock): Uint8Array => createHash("sha256").update(bytesAt(place)).digest();
const hex = (bytes: Uint8Array) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
