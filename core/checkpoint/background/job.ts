// Describes one checkpoint as plain data for a thread, and never imports libtorch. Two threads share its
// copies and SHA-256 sums.
import { bytesAt, copyMemory, type MemoryBlock, memoryParts } from "../../../ffi/libc.ts";
import { BY_SAVE_DIR } from "../../base/atomic.ts";
import { UserError } from "../../base/errors.ts";
import { writePickle } from "../pickle_writer.ts";
import { writePickled } from "../pt.ts";
import { flattenTree } from "../safetensors.ts";
import { writeSafetensors } from "../safetensors_writer.ts";
import { type BestFiles, nameBest } from "../best_files.ts";
import { type EpochFiles, linkPlainName, removeOldEpochs } from "../epoch_files.ts";
import { type CheckpointPart, ELSEWHERE, linkOrCopy, reportFailure, writePart } from "../sharded_writer.ts";
import {
  type Key,
  memoryStorage,
  type Storage,
  type StoredDType,
  type Sums,
  TensorData,
  type Value,
  type WriteOptions,
} from "../value.ts";
import type { Copy } from "./writer.ts";
import { createHash } from "node:crypto";

/** This memory does not change until the job is done. */
export type StoragePlace = MemoryBlock | Uint8Array;

export interface SaveJob extends JobContent {
  /** The job makes these copies first. Whoever wants to change their sources waits for `copied`. */
  readonly copies: readonly Copy[];
  readonly copied: SharedArrayBuffer;
  readonly path: string;
  readonly links: readonly string[];
  /** Set at the end of an epoch whose checkpoint is kept: one of the links is its own name. */
  readonly ofEpoch: EpochFiles | null;
  /** Set where the evaluation is among the best. */
  readonly best: BestFiles | null;
  /** Set where every rank writes its own part of the checkpoint. */
  readonly part?: CheckpointPart;
}

interface JobContent {
  readonly content: { readonly pickle: Uint8Array } | NamedTensors;
  readonly storages: readonly StoragePlace[];
  readonly finite: readonly { readonly name: string; readonly storage: number }[];
}

interface NamedTensors {
  readonly tensors: readonly {
    readonly name: string;
    readonly dtype: StoredDType;
    readonly shape: readonly number[];
    readonly rank: number;
    /** Null where another rank has the bytes. */
    readonly storage: number | null;
  }[];
  readonly metadata: Readonly<Record<string, string>>;
}

export interface WriteResult {
  readonly bytes: number;
  readonly seconds: number;
}

/** The parameters are the weights that must be finite. */
interface ContentOptions {
  readonly path: string;
  readonly parameters: readonly string[];
  readonly place: (storage: Storage) => StoragePlace;
}

export function saveContent(tree: Value, options: ContentOptions): JobContent {
  if (options.path.endsWith(".safetensors")) {
    return partContent(tree, {
      ...options,
      rank: 0,
      rankOf: () => 0,
    });
  }
  const { bytes: pickle, storages } = writePickle(tree);
  const numbers = new Map(storages.map((storage, number) => [storage, number]));
  const weights = (tree as Map<Key, Map<Key, TensorData>>).get("model_state_dict");
  const finite = options.parameters.map((name) => ({ name, data: weights!.get(name)! }))
    .filter(({ data }) => data.dtype === "f32")
    .map(({ name, data }) => ({ name, storage: numbers.get(data.storage)! }));
  return { content: { pickle }, storages: storages.map(options.place), finite };
}

/** Every part names all tensors, and holds the bytes of its rank's own. */
export function partContent(
  tree: Value,
  { path, parameters, place, rank, rankOf }: ContentOptions & {
    readonly rank: number;
    readonly rankOf: (data: TensorData) => number;
  },
): JobContent {
  const weights = new Set(parameters.map((name) => `model.${name}`));
  const { tensors, metadata } = flattenTree(tree, path);
  const storages = new Map<Storage, number>();
  const entries = [...tensors].map(([name, data]) => {
    const { dtype, shape, storage } = data, owner = rankOf(data);
    if (owner === rank && !storages.has(storage)) storages.set(storage, storages.size);
    return { name, dtype, shape, rank: owner, storage: storages.get(storage) ?? null };
  });
  const finite = entries.flatMap(({ name, dtype, storage }) =>
    storage !== null && dtype === "f32" && weights.has(name)
      ? [{ name: name.slice("model.".length), storage }]
      : []
  );
  return { content: { tensors: entries, metadata }, storages: [...storages.keys()].map(place), finite };
}

/**
 * A good checkpoint is replaced only when the new one was read back, and old ones go only when their
 * successor is in place.
 */
export function writeCheckpoint(job: SaveJob, callHelp?: (work: SharedWork) => void): WriteResult {
  const work = callHelp ? workOf(job.copies, job.storages) : null;
  if (work) callHelp!(work);
  try {
    return copyAndWrite(job, work);
  } catch (error) {
    if (work) leaveSums(work);
    if (job.part) reportFailure(job.path, job.part, error);
    throw error;
  }
}

function copyAndWrite(job: SaveJob, work: SharedWork | null): WriteResult {
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
      failures.push(error); // This is no reason to keep the old state in the path's place.
    }
  };
  const size = write(job, contents, { verify: true, known, ready, elsewhere: BY_SAVE_DIR });
  if (failures.length > 0) throw failures[0];
  return { bytes: size, seconds: (performance.now() - began) / 1000 };
}

/**
 * The other names come before the path: a run that is killed between the two comes to this state again and
 * names it again. The other way round it would go on from here, and the names would be missing for ever.
 */
function nameAlso({ path, part, links, ofEpoch, best }: SaveJob, temporary: string): void {
  const name = (to: string) => part ? linkOrCopy(path, to, temporary) : linkOrCopy(temporary, to);
  if (best !== null) nameBest(best, (to, from) => from === undefined ? name(to) : linkOrCopy(from, to));
  links.forEach(name);
  if (ofEpoch === null) return;
  linkPlainName(ofEpoch);
  if (ofEpoch.keep > 0) removeOldEpochs(ofEpoch);
}

function sumsOf(work: SharedWork, places: readonly StoragePlace[], contents: readonly Storage[]): Sums {
  const numbers = new Map<unknown, number>(work.sum.map((place, i) => [place, i]));
  return new Map(contents.flatMap((content, i) => {
    const number = numbers.get(places[i]);
    return number === undefined ? [] : [[content, () => digestFor(work, number)]];
  }));
}

function write({ path, content, part }: SaveJob, storages: Storage[], options: WriteOptions): number {
  if ("pickle" in content) return writePickled(path, { bytes: content.pickle, storages }, options);
  const { tensors: entries, metadata } = content;
  const tensors = new Map(
    entries.map(({ name, dtype, shape, storage }) =>
      [name, new TensorData(dtype, shape, storage === null ? ELSEWHERE : storages[storage])] as const
    ),
  );
  if (!part) return writeSafetensors(path, tensors, { ...options, metadata, sums: true });
  const ranks = new Map(entries.map(({ name, rank }) => [name, rank]));
  return writePart(path, part, { tensors, metadata, rankOf: (name) => ranks.get(name)!, ...options });
}

function copy({ copies, copied }: SaveJob, work: SharedWork | null): void {
  try {
    if (work) makeCopies(work);
    else for (const { from, to } of copies) copyMemory(from, to);
  } finally {
    const flag = new Int32Array(copied);
    Atomics.store(flag, 0, 1);
    Atomics.notify(flag, 0);
  }
}

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

/** A f32 number that is not finite has an exponent of ones, which carries into the sign. */
function allFinite(bits: Int32Array): boolean {
  const carry = (i: number) => (bits[i] & 0x7f800000) + 0x00800000;
  let found = 0, i = 0;
  for (const end = bits.length - 3; i < end; i += 4) {
    found |= carry(i) | carry(i + 1) | carry(i + 2) | carry(i + 3);
  }
  for (; i < bits.length; i++) found |= carry(i);
  return found >= 0;
}

export interface SharedWork {
  readonly copies: readonly Copy[];
  /** These are summed when all copies are made. */
  readonly sum: readonly MemoryBlock[];
  readonly board: SharedArrayBuffer;
}

const SUM_BYTES = 32;
/** A thread costs some megabytes, and less work than this is not worth it. */
const LEAST_BYTES = 32 << 20;
/** Both threads end at about the same time with pieces of this size. */
const PIECE_BYTES = 8 << 20;
/** After this long the other thread counts as gone, and this one makes the sum. */
const HELP_PATIENCE_MS = 10_000;

const NEXT_COPY = 0, COPIED = 1, NEXT_SUM = 2, COUNTERS = 3;

function boardOf({ board, sum }: SharedWork) {
  const words = COUNTERS + sum.length;
  return {
    counters: new Int32Array(board, 0, COUNTERS),
    ready: new Int32Array(board, 4 * COUNTERS, sum.length),
    sums: new Uint8Array(board, 4 * words, SUM_BYTES * sum.length),
  };
}

export const isLarge = (places: readonly MemoryBlock[]): boolean =>
  places.reduce((all, { bytes }) => all + bytes, 0) >= LEAST_BYTES;

export function workOf(
  copies: readonly Copy[],
  storages: readonly StoragePlace[],
): SharedWork | null {
  const sum = storages.filter((one): one is MemoryBlock => !(one instanceof Uint8Array));
  if (!isLarge(sum)) return null;
  const board = new SharedArrayBuffer(4 * (COUNTERS + sum.length) + SUM_BYTES * sum.length);
  return { copies: copies.flatMap(piecesOf), sum, board };
}

function piecesOf({ from, to }: Copy): Copy[] {
  const targets = memoryParts(to, PIECE_BYTES);
  return memoryParts(from, PIECE_BYTES).map((piece, i) => ({ from: piece, to: targets[i] }));
}

export function help(work: SharedWork): void {
  if (makeCopies(work, HELP_PATIENCE_MS)) makeSums(work);
}

/**
 * Returns when all copies are made, the other thread's too: their sources must not change until then. False
 * means that the other thread did not finish within the patience.
 */
export function makeCopies(work: SharedWork, patience = Infinity): boolean {
  const { copies } = work, { counters } = boardOf(work);
  for (let i = Atomics.add(counters, NEXT_COPY, 1); i < copies.length;) {
    copyMemory(copies[i].from, copies[i].to);
    Atomics.add(counters, COPIED, 1);
    Atomics.notify(counters, COPIED);
    i = Atomics.add(counters, NEXT_COPY, 1);
  }
  for (let made = 0; (made = Atomics.load(counters, COPIED)) < copies.length;) {
    if (Atomics.wait(counters, COPIED, made, patience) === "timed-out") return false;
  }
  return true;
}

/** Takes the sums that nobody has begun, so that nobody makes them. */
export function leaveSums(work: SharedWork): void {
  Atomics.store(boardOf(work).counters, NEXT_SUM, work.sum.length);
}

export function makeSums(work: SharedWork): void {
  const { sum } = work, { counters, ready, sums } = boardOf(work);
  for (let i = Atomics.add(counters, NEXT_SUM, 1); i < sum.length; i = Atomics.add(counters, NEXT_SUM, 1)) {
    sums.set(digestOf(sum[i]), SUM_BYTES * i);
    Atomics.store(ready, i, 1);
    Atomics.notify(ready, i);
  }
}

/** Makes other sums while it waits. */
export function digestFor(work: SharedWork, number: number, patience = HELP_PATIENCE_MS): string {
  makeSums(work);
  const { ready, sums } = boardOf(work);
  const arrived = Atomics.wait(ready, number, 0, patience) !== "timed-out";
  return hex(
    arrived ? sums.subarray(SUM_BYTES * number, SUM_BYTES * (number + 1)) : digestOf(work.sum[number]),
  );
}

const digestOf = (place: MemoryBlock): Uint8Array => createHash("sha256").update(bytesAt(place)).digest();
const hex = (bytes: Uint8Array) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
