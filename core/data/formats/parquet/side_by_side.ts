// Columns of numbers are read side by side: by this thread, and by others while there are row groups left.
import { longLivedUninitialised, memoryBlockOf } from "../../../../ffi/make.ts";
import { bytesAt } from "../../../../ffi/libc.ts";
import { cpusHere } from "../../../base/cores.ts";
import { UserError } from "../../../base/errors.ts";
import type { SideBySide } from "../../arrays/table.ts";
import {
  type BlockColumn,
  type BlockOrders,
  DamagedColumn,
  DONE,
  FAILED,
  type Group,
  MARKS,
  readGroup,
  readGroups,
} from "./blocks.ts";
import type { ParquetColumn, ParquetFile } from "./file.ts";

/** With fewer numbers a thread is not worth its start. */
const MANY = 2 ** 21;
/** A thread takes this much for its pages and itself; all of them may take this share of the numbers. */
const THREAD_BYTES = 48 * 2 ** 20, SHARE = 0.15;

export function sideBySide(
  files: readonly ParquetFile[],
  columns: readonly BlockColumn[],
  rows: number,
): SideBySide {
  const values = longLivedUninitialised([rows, columns.length]);
  const into = memoryBlockOf(values);
  const threads = threadsFor(rows * columns.length);
  const groups = groupsOf(files, columns, threads);
  const words = new Int32Array(new SharedArrayBuffer(4 * (MARKS + columns.length)));
  if (rows > 0) {
    readAll({ columns, groups, into, words: words.buffer }, Math.min(threads, groups.length), words);
  }
  return { values, marked: [...words.subarray(MARKS)].map((marks) => marks !== 0) };
}

function threadsFor(numbers: number): number {
  if (numbers < MANY) return 1;
  return Math.min(cpusHere(), 1 + Math.floor(SHARE * 4 * numbers / THREAD_BYTES));
}

function readAll(orders: BlockOrders, threads: number, words: Int32Array): void {
  const workers = Array.from({ length: threads - 1 }, (_, i) => {
    const worker = new Worker(new URL("./thread.ts", import.meta.url), {
      type: "module",
      name: `table ${i + 1}`,
    });
    worker.onerror = (event) => event.preventDefault(); // what it did not take, this thread does
    worker.postMessage(orders);
    return worker;
  });
  try {
    readGroups(orders);
    for (let done; (done = Atomics.load(words, DONE)) < orders.groups.length;) {
      const failed = Atomics.load(words, FAILED);
      if (failed > 0) throw failureOf(orders, orders.groups[failed - 1], words);
      Atomics.wait(words, DONE, done, 1000);
    }
    const failed = Atomics.load(words, FAILED);
    if (failed > 0) throw failureOf(orders, orders.groups[failed - 1], words);
  } finally {
    for (const worker of workers) worker.terminate();
  }
}

function failureOf({ columns, into }: BlockOrders, group: Group, words: Int32Array): Error {
  try {
    readGroup(columns, group, bytesAt(into), words);
  } catch (error) {
    if (!(error instanceof DamagedColumn)) return error as Error;
    const { path } = group.file;
    return new UserError(
      "data",
      `${path}: the column "${error.column}" ${error.message}. Copy it again from where it came from.`,
      { cause: error },
    );
  }
  return new Error("internal: a row group was read the second time, and not the first.");
}

/** So many groups for each thread that none waits long for the last one. */
const GROUPS = 3;

/** Where row groups are few, parts of their columns are groups of their own. */
function groupsOf(
  files: readonly ParquetFile[],
  columns: readonly BlockColumn[],
  threads: number,
): Group[] {
  const groups: Group[] = [];
  let first = 0;
  for (const { mark, chunks, columns: own } of files) {
    const optional = columns.map(({ name }) => own.find((column) => column.name === name)!.optional);
    const lists = columns.map(({ name }) => chunks.get(name)!);
    for (let i = 0; i < lists[0].length; i++) {
      const { rows } = lists[0][i];
      groups.push({
        file: mark,
        first,
        rows,
        columns: lists.map((list, at) => ({ ...list[i], at, optional: optional[at] })),
      });
      first += rows;
    }
  }
  const parts = threads === 1 ? 1 : Math.min(columns.length, Math.ceil(GROUPS * threads / groups.length));
  return parts === 1 ? groups : groups.flatMap((group) => partsOf(group, parts));
}

function partsOf(group: Group, parts: number): Group[] {
  const { columns } = group;
  return Array.from({ length: parts }, (_, i) => ({
    ...group,
    columns: columns.slice(
      Math.floor(i * columns.length / parts),
      Math.floor((i + 1) * columns.length / parts),
    ),
  }));
}

/** Null where a column has numbers that only its own way reads. */
export function blockColumn(column: ParquetColumn, missing: boolean): BlockColumn | null {
  const { name, physical, dtype, unusable } = column;
  if (unusable || dtype === null || dtype === "u64") return null;
  return { name, physical, dtype, missing };
}
