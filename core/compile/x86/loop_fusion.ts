// Batches of products and groups that follow each other and go through the same heads of the same samples are one loop:
// what one writes for a head is still in the cache when the next one reads it, and threads meet once.
import {
  ELEMENT_BYTES,
  type GroupKernel,
  type Kernel,
  type Reduction,
  type Stage,
  type StridedAccess,
} from "../kernel.ts";
import { RAX, RSP } from "./assembler.ts";
import type { ProductBatch } from "../batches.ts";
import type { MemoryOperand } from "./encodings.ts";
import { printGemm } from "./gemm.ts";
import { printX86Group } from "./group.ts";
import type { Printer } from "./printer.ts";

/** Where a strided access begins, and elements from one time to the next of each loop. */
interface Start {
  readonly access: StridedAccess;
  readonly steps: readonly number[];
}

interface Body {
  /** It is run each time; slot -1 - i is the start of number i. */
  readonly kernel: ProductBatch["product"] | GroupKernel;
  readonly starts: readonly Start[];
}

export interface LoopNest {
  readonly kernel: "nest";
  /** So many times, the outermost loop first. */
  readonly counts: readonly number[];
  readonly bodies: readonly Body[];
}

type Item = Kernel | ProductBatch;

export function withFusedLoops(items: readonly Item[]): (Item | LoopNest)[] {
  const joined: (Item | LoopNest)[] = [];
  for (let at = 0; at < items.length;) {
    const nest = loopNestAt(items, at);
    joined.push(nest ?? items[at]);
    at += nest?.bodies.length ?? 1;
  }
  return joined;
}

function loopNestAt(items: readonly Item[], at: number): LoopNest | null {
  const run: Item[] = [], reached: Reach[][] = [];
  const times = timesOf(items[at]);
  let counts: readonly number[] | null = null;
  for (let i = at; times > 1 && i < items.length && timesOf(items[i]) === times; i++) {
    const item = items[i], own = item.kernel === "batch" ? item.repeats.map(({ count }) => count) : null;
    if (counts !== null && own !== null && own.length > 1 && String(counts) !== String(own)) break;
    const accesses = accessesOf(item);
    if (!reached.every((before) => before.every((one) => accesses.every((other) => agree(one, other))))) {
      break;
    }
    if (own !== null && (counts === null || own.length > 1)) counts = own;
    run.push(item);
    reached.push(accesses);
  }
  if (run.length < 2 || counts === null) return null;
  const loops = counts;
  return { kernel: "nest", counts, bodies: run.map((item) => bodyOf(item, loops)) };
}

/** So often does it do the same at another place; 0 where that is not known. */
function timesOf(item: Item): number {
  if (item.kernel === "batch") return item.repeats.reduce((all, { count }) => all * count, 1);
  if (item.kernel !== "group" || item.sizes.length < 2) return 0;
  const alone = item.stages.every(({ reductions }) => reductions.every(({ over }) => over === "row"));
  return alone ? item.sizes[0] : 0;
}

// The elements that accesses reach, and when.

/** The elements that one access reaches at one time, and how far it moves from time to time. */
interface Reach {
  readonly slot: number;
  readonly begin: number;
  readonly writes: boolean;
  readonly loops: readonly Dim[];
  readonly dims: readonly Dim[];
}

interface Dim {
  readonly stride: number;
  readonly size: number;
}

const spread = (sizes: readonly number[], strides: readonly number[]): Dim[] =>
  sizes.map((size, i) => ({ size, stride: strides[i] })).filter(({ size, stride }) =>
    size > 1 && stride !== 0
  );

function accessesOf(item: Item): Reach[] {
  if (item.kernel === "batch") {
    const { product: { m, n, k, a, b, c, add }, repeats } = item;
    const reach = (
      name: "a" | "b" | "c",
      access: StridedAccess,
      sizes: readonly number[],
      writes: boolean,
    ): Reach => ({
      ...{ slot: access.slot, begin: access.offset, writes, dims: spread(sizes, access.strides) },
      loops: spread(repeats.map(({ count }) => count), repeats.map((repeat) => repeat[name])),
    });
    const made = reach("c", c, [m, n], true);
    return [reach("a", a, [m, k], false), reach("b", b, [k, n], false), made, ...(add ? [made] : [])];
  }
  const { sizes, stages } = item as GroupKernel;
  const reach = (access: StridedAccess, writes: boolean, strides = access.strides): Reach => ({
    ...{ slot: access.slot, begin: access.offset, writes, dims: spread(sizes.slice(1), strides.slice(1)) },
    loops: spread([sizes[0]], [strides[0]]),
  });
  return stages.flatMap(({ instructions, stores, reductions }) => [
    ...instructions.flatMap((one) => "from" in one ? [reach(one.from, false)] : []),
    ...stores.map(({ to }) => reach(to, true)),
    ...reductions.flatMap(({ to }) => to ? [reach(to, true, standing(to))] : []),
  ]);
}

/** A row's sum stands still while the row goes by. */
const standing = ({ strides }: StridedAccess): readonly number[] => strides.with(-1, 0);

const extent = (dims: readonly Dim[]): number =>
  dims.reduce((sum, { stride, size }) => sum + stride * (size - 1), 1);

/** The first element that is reached at any time, and the one behind the last. A batch may go backwards. */
function rangeOf({ begin, loops, dims }: Reach): [number, number] {
  const ways = [...loops, ...dims].map(({ stride, size }) => stride * (size - 1));
  const sum = (of: readonly number[]) => of.reduce((all, way) => all + way, begin);
  return [sum(ways.filter((way) => way < 0)), sum(ways.filter((way) => way > 0)) + 1];
}

const goesBack = ({ loops }: Reach): boolean => loops.some(({ stride }) => stride < 0);

/** Neither reaches at one time what the other, or it itself, writes at another time. */
function agree(a: Reach, b: Reach): boolean {
  if (a.slot !== b.slot || !a.writes && !b.writes) return true;
  const [beginA, endA] = rangeOf(a), [beginB, endB] = rangeOf(b);
  if (endA <= beginB || endB <= beginA) return true;
  if (goesBack(a) || goesBack(b)) return false;
  const rows = a.dims.filter(({ stride }) => b.dims.some((other) => other.stride === stride));
  if (rows.some(({ stride }) => besides(a, b, stride))) return true;
  // Both move alike, and what they reach at one time ends before the next one's begins.
  const begin = Math.min(a.begin, b.begin);
  const loops = flattened(a.loops);
  if (String(flat(loops)) !== String(flat(flattened(b.loops)))) return false;
  const end = Math.max(a.begin + extent(a.dims), b.begin + extent(b.dims));
  let reach = end - begin;
  for (const { stride, size } of loops) {
    if (stride < reach) return false;
    reach += stride * (size - 1);
  }
  return true;
}

const flat = (dims: readonly Dim[]): number[] => dims.flatMap(({ stride, size }) => [stride, size]);

/** The innermost first; two loops in one stride are one. */
function flattened(loops: readonly Dim[]): Dim[] {
  const made: Dim[] = [];
  for (const { stride, size } of loops.toSorted((a, b) => a.stride - b.stride)) {
    const inner = made.at(-1);
    if (inner && inner.stride * inner.size === stride) {
      made[made.length - 1] = { ...inner, size: inner.size * size };
    } else made.push({ stride, size });
  }
  return made;
}

/** In rows of this length, wherever they begin, the two always have columns of their own. */
function besides(a: Reach, b: Reach, row: number): boolean {
  const width = ({ loops, dims }: Reach): number => {
    const all = [...loops, ...dims], torn = all.some(({ stride }) => stride >= row && stride % row !== 0);
    return torn ? Infinity : extent(all.filter(({ stride }) => stride < row));
  };
  const from = ((b.begin - a.begin) % row + row) % row;
  return width(a) <= from && from + width(b) <= row;
}

// The body, which is run each time.

function bodyOf(item: Item, counts: readonly number[]): Body {
  if (item.kernel === "batch") {
    const { product, repeats } = item;
    const start = (name: "a" | "b" | "c"): Start => ({
      access: product[name],
      steps: repeats.length === counts.length
        ? repeats.map((repeat) => repeat[name])
        : stepsOf(repeats[0][name], counts),
    });
    return { kernel: product, starts: [start("a"), start("b"), start("c")] };
  }
  const { sizes, stages, ...rest } = item as GroupKernel, starts: Start[] = [];
  /** Walks of one slot that move alike have one start. */
  const once = (access: StridedAccess): StridedAccess => {
    const { slot, kind, strides: [step, ...strides] } = access;
    const same = (start: Start) =>
      start.access.slot === slot && start.access.kind === kind && start.steps.at(-1) === step;
    let at = starts.findIndex(same);
    if (at < 0) at = starts.push({ access, steps: stepsOf(step, counts) }) - 1;
    return { ...access, slot: -1 - at, offset: access.offset - starts[at].access.offset, strides };
  };
  return {
    kernel: { ...rest, sizes: sizes.slice(1), stages: stages.map((stage) => stageOf(stage, once)) },
    starts,
  };
}

const stepsOf = (step: number, counts: readonly number[]): number[] =>
  counts.map((_, i) => counts.slice(i + 1).reduce((all, count) => all * count, step));

const stageOf = (
  { instructions, stores, reductions }: Stage,
  once: (access: StridedAccess) => StridedAccess,
): Stage => ({
  instructions: instructions.map((one) => "from" in one ? { ...one, from: once(one.from) } : one),
  stores: stores.map(({ value, to }) => ({ value, to: once(to) })),
  reductions: reductions.map((one): Reduction => ({ ...one, to: one.to && once(one.to) })),
});

export function printLoopNest(printer: Printer, { counts, bodies }: LoopNest): void {
  const { asm } = printer;
  printer.withFrame(() => {
    const starts = bodies.flatMap((body) => body.starts), at = printer.reserve(8 * starts.length);
    const place = (i: number): MemoryOperand => ({ base: RSP, disp: at + 8 * i });
    const bytes = ({ access: { kind } }: Start) => ELEMENT_BYTES[kind];
    starts.forEach((start, i) => {
      printer.place(RAX, start.access, bytes(start));
      asm.store(place(i), RAX);
    });
    const advance = (level: number, times: number) =>
      starts.forEach((start, i) => {
        const step = start.steps[level] * times * bytes(start);
        if (step !== 0) asm.add(place(i), step);
      });
    const once = () => {
      let first = 0;
      for (const { kernel, starts } of bodies) {
        const own = first;
        if (kernel.kernel === "gemm") printGemm(printer, kernel, (operand) => place(own + operand));
        else printX86Group(printer, kernel, (slot) => slot < 0 ? place(own - 1 - slot) : null);
        first += starts.length;
      }
    };
    const repeat = (level: number): void => {
      if (level === counts.length) return once();
      const counter: MemoryOperand = { base: RSP, disp: printer.reserve(8) }, again = asm.label();
      asm.storeNumber(counter, counts[level]);
      asm.bind(again);
      repeat(level + 1);
      advance(level, 1);
      asm.subtract(counter, 1);
      asm.jump("notZero", again);
      advance(level, -counts[level]);
    };
    repeat(0);
  });
}
