// Each op alone, for every printer: compared with what libtorch makes of special numbers and of numbers of many sizes. Test
// helper.
import { POINTWISE, type Pointwise } from "../../../../core/compile/graph.ts";
import type { GroupKernel, Instruction } from "../../../../core/compile/kernel.ts";
import { tensor, toNumbers } from "../../../../ffi/make.ts";
import { toCopy } from "../../../../ffi/ops.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { strided } from "./harness.ts";
import { draws, SPECIAL, TORCH, ulpOf, ULPS } from "./torch_ops.ts";

/** Columns of arguments: all pairs of special numbers, and numbers of many sizes. */
function argumentsOf(count: number): Float32Array<ArrayBuffer>[] {
  const random = draws(count), rows: number[][] = [];
  for (const a of SPECIAL) {
    if (count === 1) rows.push([a]);
    else for (const b of SPECIAL) rows.push(count === 2 ? [a, b] : [Math.sign(a) || 0, b, a]);
  }
  for (let i = 0; i < 4001; i++) {
    rows.push(Array.from({ length: count }, () => (random() - 0.5) * 10 ** (random() * 8 - 5)));
  }
  return Array.from({ length: count }, (_, k) => Float32Array.from(rows, (row) => row[k]));
}

export function groupOf(op: string, count: number, elements: number, exact = false): GroupKernel {
  const loads = Array.from({ length: count }, (_, k): Instruction => ({ op: "load", from: strided(k, [1]) }));
  const made: Instruction = { op, args: loads.map((_, k) => k) };
  const stores = [{ value: count, to: strided(count, [1]) }];
  const stage = { instructions: [...loads, made], stores, reductions: [] };
  return { kernel: "group", name: op, sizes: [elements], stages: [stage], exact };
}

/** The last slot takes the result. */
export interface OpRun {
  readonly group: GroupKernel;
  readonly slots: readonly Float32Array<ArrayBuffer>[];
}

/** What is wrong with ops; `run` gives each group's result. */
export function wrongOps(run: (runs: readonly OpRun[]) => readonly Float32Array[]): string[] {
  const ops = Object.entries(POINTWISE).filter(([op]) => op !== "float") as [
    Exclude<Pointwise, "float">,
    number,
  ][];
  const runs = ops.map(([op, count]): OpRun => {
    const columns = argumentsOf(count), elements = columns[0].length;
    return { group: groupOf(op, count, elements), slots: [...columns, new Float32Array(elements)] };
  });
  const results = run(runs), found: string[] = [];
  ops.forEach(([op], k) =>
    scope(() => {
      const columns = runs[k].slots.slice(0, -1), mine = results[k];
      const theirs = toNumbers(TORCH[op](...columns.map((column) => tensor(column))));
      const truths = toNumbers(TORCH[op](...columns.map((column) => toCopy(tensor(column), "f64"))));
      const bound = ULPS[op];
      mine.forEach((value, i) => {
        if (value === theirs[i] || Number.isNaN(value) && Number.isNaN(theirs[i])) return;
        const error = Math.abs(value - truths[i]) / ulpOf(truths[i]);
        if (bound !== undefined && error <= bound) return;
        const of = columns.map((column) => column[i]);
        found.push(`${op}(${of}) = ${value}, not ${theirs[i]}, ${truths[i]}: ${error.toFixed(2)} ulp`);
      });
    })
  );
  return found.slice(0, 20);
}
