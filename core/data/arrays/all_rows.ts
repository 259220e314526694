// All rows of a large column become a tensor: this thread and others read them straight to their places, as loader threads
// read single rows.
import { dtypeBytes } from "../../../ffi/dtype.ts";
import { longLivedUninitialised, memoryBlockOf } from "../../../ffi/make.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { cpuCount } from "../../base/topology.ts";
import { checkFreeMemory } from "../../base/memory.ts";
import { DONE, FAILED, ODD, readBlocks, type RowBlockOrders, WORDS } from "./open_rows.ts";
import { product } from "./numbers.ts";
import { type Rows, rowsAtOnce, type StoredRows, storedRows } from "./rows.ts";
import type { StoredValues } from "./table.ts";

/** Less than this is read sooner than a thread starts, and shorter rows are read sooner side by side. */
const LEAST = { bytes: 16 * 2 ** 20, row: 1024 } as const;
/** So much is taken at once: threads meet seldom, and none waits long for the last. */
const BLOCK_BYTES = 512 * 2 ** 10;

interface AllRows {
  /** The values as they are stored. */
  readonly values: Tensor;
  /** All of them are finite and none is missing, so they are what is meant. */
  readonly plain: boolean;
}

/** Null where they have to be read otherwise: threads are no help, or meet a damaged row. */
export function readByThreads(
  { variable, raw: dtype, fills }: Omit<StoredValues, "unpack">,
  least: Readonly<Record<"bytes" | "row", number>> = LEAST,
): AllRows | null {
  const { name, shape: [count, ...row] } = variable, rows = variable.rows(1);
  const bytes = product(row) * dtypeBytes(dtype);
  if (!isForThreads({ variable, raw: dtype }, rows, least)) return null;
  checkFreeMemory(name, count * bytes, null, "Choose fewer with --features.");
  const values = longLivedUninitialised([count, ...row], { dtype });
  const together = Math.max(...storedRows(rows).map(rowsAtOnce));
  const words = new Int32Array(new SharedArrayBuffer(4 * WORDS));
  const orders: RowBlockOrders = {
    column: { name, rows, raw: dtype },
    rows: count,
    into: memoryBlockOf(values),
    block: Math.ceil(BLOCK_BYTES / bytes / together) * together,
    fills,
    words: words.buffer,
  };
  if (readAll(orders, words)) return { values, plain: fills !== null && words[ODD] === 0 };
  values.free();
  return null;
}

/** There is enough to read, and threads can read it: HDF5's library is another one in each, and a server answers one at a time. */
export function isForThreads(
  { variable: { shape: [count = 0, ...row] }, raw }: Pick<StoredValues, "variable" | "raw">,
  rows: Rows | string,
  least: Readonly<Record<"bytes" | "row", number>> = LEAST,
): rows is Rows {
  const bytes = product(row) * dtypeBytes(raw);
  if (bytes < least.row || count * bytes < least.bytes || count >= 2 ** 30 || typeof rows === "string") {
    return false;
  }
  const stored = storedRows(rows);
  const isLocal = (one: StoredRows) => one.layout !== "format" || one.access !== "alone";
  return stored.length > 0 && stored.every(isLocal);
}

/** A thread's start pays for so much; many ranks may share a machine's cores, and more threads wait for its memory. */
const THREAD_BYTES = 32 * 2 ** 20, MOST_THREADS = 16;

/** The threads start while this one begins. */
function readAll(orders: RowBlockOrders, words: Int32Array): boolean {
  const blocks = Math.ceil(orders.rows / orders.block);
  const paying = Math.min(1 + Math.ceil(orders.into.bytes / THREAD_BYTES), MOST_THREADS);
  const workers = Array.from({ length: Math.min(cpuCount(), blocks, paying) - 1 }, (_, i) => {
    const worker = new Worker(new URL("./row_blocks_thread.ts", import.meta.url), {
      type: "module",
      name: `rows ${i + 1}`,
    });
    worker.onerror = (event) => event.preventDefault(); // what it did not take, this thread does
    worker.postMessage(orders);
    return worker;
  });
  try {
    readBlocks(orders);
    for (let done; (done = Atomics.load(words, DONE)) < orders.rows;) {
      if (Atomics.load(words, FAILED) !== 0) break;
      Atomics.wait(words, DONE, done, 1000);
    }
    return Atomics.load(words, FAILED) === 0;
  } finally {
    for (const worker of workers) worker.terminate();
  }
}
