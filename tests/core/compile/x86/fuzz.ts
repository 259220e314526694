// Random groups. Each value of each instruction is compared with what libtorch's op makes of our operands, each
// reduction with a sum in f64. Then the same group without its intermediate stores must store the same bits.
import { POINTWISE, type Pointwise } from "../../../../core/compile/graph.ts";
import type { Isa } from "../../../../ffi/machine.ts";
import type {
  GemmKernel,
  GroupKernel,
  Instruction,
  Reduction,
  Stage,
  Store,
  StridedAccess,
} from "../../../../core/compile/kernel.ts";
import { tensor, toNumbers } from "../../../../ffi/make.ts";
import { toCopy } from "../../../../ffi/ops.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { type Data, runKernels, strided } from "./harness.ts";
import { draws, SPECIAL, TORCH, ulpOf, ULPS } from "./torch_ops.ts";

const SIZES = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 47, 64, 65, 100];
/** Rows and columns that many threads share. */
const LARGE = [128, 132, 260, 700, 1028, 1540, 3001];
const OPS = Object.keys(POINTWISE).filter((op) => op !== "float") as Exclude<Pointwise, "float">[];
const NO_WAVES = OPS.filter((op) => op !== "sin" && op !== "cos");

class Random {
  readonly next: () => number;
  constructor(seed: number) {
    this.next = draws(seed * 2654435761 + 97);
    for (let i = 0; i < 8; i++) this.next();
  }
  below = (count: number): number => Math.floor(this.next() * count);
  of = <T>(list: readonly T[]): T => list[this.below(list.length)];
  chance = (share: number): boolean => this.next() < share;
}

interface Case {
  readonly kernel: GroupKernel;
  readonly slots: Data[];
}

/** Strides of a tensor that is read over these sizes: whole, broadcast, turned, or with gaps. */
function readStrides(random: Random, sizes: readonly number[]): number[] {
  const order = sizes.map((_, dim) => dim);
  if (random.chance(0.2)) order.reverse();
  const strides = new Array<number>(sizes.length).fill(0);
  let step = random.chance(0.15) ? 2 : 1;
  for (const dim of order.toReversed()) {
    if (random.chance(0.2)) continue;
    strides[dim] = step;
    step *= sizes[dim] + (random.chance(0.1) ? 3 : 0);
  }
  return strides;
}

const extent = (strides: readonly number[], sizes: readonly number[]): number =>
  1 + strides.reduce((sum, stride, dim) => sum + stride * (sizes[dim] - 1), 0);

const rowMajor = (sizes: readonly number[]): number[] =>
  sizes.map((_, dim) => sizes.slice(dim + 1).reduce((product, size) => product * size, 1));

function numbers(random: Random, count: number): Float32Array {
  const special = random.chance(0.3), scale = 10 ** (random.next() * 4 - 2);
  return Float32Array.from(
    { length: count },
    () => special && random.chance(0.1) ? random.of(SPECIAL) : (random.next() - 0.5) * scale,
  );
}

function makeCase(random: Random, large: boolean): Case {
  const sizes = Array.from({ length: 1 + random.below(3) }, () => random.of(SIZES));
  if (large) sizes[random.below(sizes.length)] = random.of(LARGE);
  const most = large ? 60_000 : 6_000;
  while (sizes.reduce((a, b) => a * b) > most) sizes[random.below(sizes.length)] = random.of([1, 2, 3]);
  const slots: Data[] = [];
  const inputs = Array.from({ length: 1 + random.below(5) }, (): StridedAccess => {
    const strides = readStrides(random, sizes),
      kind = random.of(["f32", "f32", "f32", "i64", "bool"] as const);
    const offset = random.chance(0.3) ? random.below(7) : 0;
    const count = offset + extent(strides, sizes);
    slots.push(
      kind === "f32"
        ? numbers(random, count)
        : kind === "i64"
        ? BigInt64Array.from({ length: count }, () => BigInt(random.below(2001) - 1000))
        : Uint8Array.from({ length: count }, () => random.below(2)),
    );
    return strided(slots.length - 1, strides, offset, kind);
  });
  const place = (strides: readonly number[]): StridedAccess => {
    slots.push(new Float32Array(extent(strides, sizes)).fill(-77));
    return strided(slots.length - 1, strides);
  };
  const whole = () => {
    if (!random.chance(0.1)) return place(rowMajor(sizes));
    // Stored turned: the last dimension is not side by side.
    return place(rowMajor(sizes.toReversed()).reverse());
  };
  const stages: Stage[] = [];
  const ops = random.chance(0.2) ? OPS : NO_WAVES;
  let rows = 0;
  for (let s = random.of([1, 1, 2, 3]); s > 0; s--) {
    const instructions: Instruction[] = inputs.filter(() => random.chance(0.8)).map((from) => ({
      op: "load",
      from,
    }));
    if (instructions.length === 0) instructions.push({ op: "load", from: inputs[0] });
    if (random.chance(0.6)) instructions.push({ op: "number", value: Math.fround(random.next() * 4 - 2) });
    for (let r = 0; r < rows; r++) instructions.push({ op: "reduced", reduction: r });
    const count = random.chance(0.15) ? 70 : 1 + random.below(12);
    for (let i = 0; i < count; i++) {
      const op = random.chance(0.05) ? "fma" as const : random.of(ops);
      const near = (): number =>
        random.chance(0.5)
          ? Math.max(0, instructions.length - 1 - random.below(4))
          : random.below(instructions.length);
      instructions.push({ op, args: Array.from({ length: op === "fma" ? 3 : POINTWISE[op] }, near) });
    }
    const stores: Store[] = instructions.map((_, value) => ({ value, to: whole() }));
    const reductions = Array.from({ length: random.of([0, 0, 1, 2, 9]) }, (): Reduction => {
      const over = random.of(["row", "column", "all"] as const);
      if (over === "row") rows++;
      const last = sizes.length - 1;
      const strides = over === "row"
        ? [...rowMajor(sizes.slice(0, last)), 0]
        : sizes.map((_, dim) => over === "column" && dim === last ? 1 : 0);
      return {
        op: random.of(["sum", "amax"] as const),
        over,
        value: random.below(instructions.length),
        to: place(strides),
      };
    });
    stages.push({ instructions, stores, reductions });
  }
  return { kernel: { kernel: "group", name: "random", sizes, stages }, slots };
}

/** A walk's values over all sizes, in row-major order. */
function walked(
  { slot, strides, offset }: StridedAccess,
  sizes: readonly number[],
  slots: readonly Data[],
): Float32Array {
  const out = new Float32Array(sizes.reduce((a, b) => a * b)), data = slots[slot];
  const at = sizes.map(() => 0);
  for (let i = 0; i < out.length; i++) {
    out[i] = Number(data[offset + strides.reduce((sum, stride, dim) => sum + stride * at[dim], 0)]);
    for (let dim = sizes.length - 1; dim >= 0 && ++at[dim] === sizes[dim]; dim--) at[dim] = 0;
  }
  return out;
}

const same = (a: number, b: number): boolean => a === b || Number.isNaN(a) && Number.isNaN(b);

/** What is wrong with an instruction's values, given ours of its operands. */
function wrongValue(op: string, operands: readonly Float32Array[], mine: Float32Array): string | null {
  return scope(() => {
    const of = (dtype: "f32" | "f64") =>
      toNumbers(TORCH[op as keyof typeof TORCH](...operands.map((values) => toCopy(tensor(values), dtype))));
    const theirs = op === "fma" ? null : of("f32");
    let truths: Float64Array | null = null;
    for (let i = 0; i < mine.length; i++) {
      if (theirs && same(mine[i], theirs[i])) continue;
      if (op === "fma") {
        const [a, b, c] = operands.map((values) => values[i]);
        const truth = a * b + c; // the product is exact in f64
        if (same(mine[i], Math.fround(truth)) || Math.abs(mine[i] - truth) <= 0.51 * ulpOf(truth)) continue;
        return `fma(${a}, ${b}, ${c}) = ${mine[i]}, not ${truth}`;
      }
      truths ??= of("f64");
      const bound = ULPS[op as Pointwise];
      if (bound !== undefined && Math.abs(mine[i] - truths[i]) <= bound * ulpOf(truths[i])) continue;
      return `${op}(${operands.map((values) => values[i])}) = ${mine[i]}, not ${theirs![i]} or ${truths[i]}`;
    }
    return null;
  });
}

function wrongReduction(
  { op, over, to }: Reduction,
  values: Float32Array,
  sizes: readonly number[],
  slots: readonly Data[],
): string | null {
  const columns = sizes.at(-1)!, relative = 1e-5 + 3e-8 * (values.length / columns);
  const results = slots[to!.slot] as Float32Array;
  const expected = Array.from(results, () => ({ sum: 0, size: 0, greatest: -Infinity }));
  values.forEach((value, i) => {
    const one = expected[over === "row" ? Math.floor(i / columns) : over === "column" ? i % columns : 0];
    one.sum += value;
    one.size += Math.abs(value);
    one.greatest = Math.max(one.greatest, value);
  });
  for (const [i, { sum, size, greatest }] of expected.entries()) {
    const mine = results[i];
    if (op === "amax" ? same(mine, greatest) : same(mine, sum)) continue;
    // Near the greatest f32 the order decides whether a sum overflows.
    if (op === "sum" && (size > 1e37 || Math.abs(mine - sum) <= relative * size + 1e-44)) continue;
    return `${op} over ${over} = ${mine}, not ${op === "sum" ? sum : greatest}`;
  }
  return null;
}

/** A group to run; `atEnd`: its tensors end where memory does. */
export interface GroupRun {
  readonly kernel: GroupKernel;
  readonly slots: readonly Data[];
  readonly atEnd: boolean;
}

/** The group of this seed, and the same one without the stores that only this test wants. */
export function groupRuns(
  seed: number,
  large = false,
): { readonly full: GroupRun; readonly lean: GroupRun } {
  const { kernel, slots } = makeCase(new Random(seed), large), random = new Random(seed + 1);
  const stages = kernel.stages.map((stage) => ({
    ...stage,
    stores: stage.stores.filter((_, i) => i === stage.stores.length - 1 || random.chance(0.1)),
  }));
  return {
    full: { kernel, slots, atEnd: seed % 2 === 0 },
    lean: { kernel: { ...kernel, stages }, slots, atEnd: seed % 2 === 1 },
  };
}

/** Null where the group of this seed is right. */
export const fuzzGroup = (seed: number, isa: Isa): string | null =>
  judgeGroup(
    seed,
    groupRuns(seed),
    ({ kernel, slots, atEnd }) => runKernels([kernel], isa, slots, atEnd),
  );

/** Null where both runs give what they must. */
export function judgeGroup(
  seed: number,
  runs: ReturnType<typeof groupRuns>,
  run: (one: GroupRun) => readonly Data[],
): string | null {
  const { kernel: { sizes, stages }, slots } = runs.full;
  const full = run(runs.full);
  const reduced: Float32Array[] = [];
  for (const { instructions, stores, reductions } of stages) {
    const values = stores.map(({ to }) => walked(to, sizes, full));
    for (const [i, instruction] of instructions.entries()) {
      let problem: string | null = null;
      if ("args" in instruction) {
        problem = wrongValue(instruction.op, instruction.args.map((arg) => values[arg]), values[i]);
      } else {
        const wanted = "from" in instruction
          ? walked(instruction.from, sizes, slots)
          : "value" in instruction
          ? values[i].map(() => instruction.value)
          : reduced[instruction.reduction];
        if (!values[i].every((value, k) => same(value, wanted[k]))) problem = `${instruction.op} is wrong`;
      }
      if (problem) return `seed ${seed}: instruction ${i}: ${problem}`;
    }
    for (const reduction of reductions) {
      const problem = wrongReduction(reduction, values[reduction.value], sizes, full);
      if (problem) return `seed ${seed}: ${problem}`;
      if (reduction.over === "row") reduced.push(walked(reduction.to!, sizes, full));
    }
  }
  // Sleef computes these lanes in another way where a neighbour is large, and neighbours are others then.
  if (stages.some((stage) => stage.instructions.some(({ op }) => op === "sin" || op === "cos"))) return null;
  const second = run(runs.lean);
  // Fewer stores leave room for more partial sums, whose total rounds otherwise: what is made of it is compared with what
  // the whole group makes of that very total.
  const sums = stages.flatMap((stage) => stage.reductions).filter(({ over }) => over === "row");
  const alike = sums.every(({ to }) =>
    (full[to!.slot] as Float32Array).every((value, i) => same(value, Number(second[to!.slot][i])))
  );
  const wanted = alike ? full : run(withTotals(runs.full, sums, second));
  for (const [i, { stores, reductions }] of runs.lean.kernel.stages.entries()) {
    for (const { to } of stores) {
      const [a, b] = [wanted[to.slot], second[to.slot]] as Float32Array[];
      if (!a.every((value, i) => same(value, b[i]))) return `seed ${seed}: without stores it differs`;
    }
    for (const reduction of reductions) {
      const values = walked(stages[i].stores[reduction.value].to, sizes, wanted);
      const problem = wrongReduction(reduction, values, sizes, second);
      if (problem) return `seed ${seed}: without stores ${problem}`;
    }
  }
  return null;
}

/** The group with the totals of another run, in the place of its own. */
function withTotals(
  { kernel, slots, atEnd }: GroupRun,
  sums: readonly Reduction[],
  others: readonly Data[],
): GroupRun {
  const stages = kernel.stages.map(({ instructions, stores }) => ({
    instructions: instructions.map((one): Instruction =>
      "reduction" in one ? { op: "load", from: sums[one.reduction].to! } : one
    ),
    stores,
    reductions: [],
  }));
  const totals = new Set(sums.map(({ to }) => to!.slot));
  return {
    kernel: { ...kernel, stages },
    slots: slots.map((_, i) => (totals.has(i) ? others : slots)[i]),
    atEnd,
  };
}

/** A product with an epilogue stores the bits of the product and its epilogue apart; and the product is right. */
export function fuzzProduct(seed: number, isa: Isa): string | null {
  const random = new Random(seed);
  const [m, n] = [random.of([1, 2, 7, 33, 64, 130, 150]), random.of([1, 3, 16, 50, 64, 65, 100, 129, 144])];
  const k = random.of([1, 2, 7, 16, 33, 100, 260]);
  const matrix = (rows: number, columns: number) => random.chance(0.5) ? [columns, 1] : [1, rows];
  const sa = matrix(m, k), sb = matrix(k, n), sc = matrix(m, n);
  const small = (count: number) => Float32Array.from({ length: count }, () => random.next() - 0.5);
  const add = random.chance(0.3);
  const slots: Data[] = [small(m * k), small(k * n), small(m * n), small(m * n), small(n)];
  const instructions: Instruction[] = [
    { op: "load", from: strided(-1, sc) },
    { op: "load", from: strided(3, matrix(m, n)) },
    { op: "load", from: strided(4, [0, 1]) },
  ];
  for (let i = random.below(8); i >= 0; i--) {
    const op = random.of(["add", "mul", "sub", "max", "tanh", "exp", "where", "gt", "neg"] as const);
    instructions.push({
      op,
      args: Array.from({ length: POINTWISE[op] }, () => random.below(instructions.length)),
    });
  }
  const stores = Array.from({ length: 1 + random.below(2) }, (_, i): Store => {
    slots.push(new Float32Array(m * n));
    return { value: i === 0 ? instructions.length - 1 : 0, to: strided(slots.length - 1, matrix(m, n)) };
  });
  const product: GemmKernel = {
    ...{ kernel: "gemm", name: "product", m, n, k, add },
    ...{ a: strided(0, sa), b: strided(1, sb), c: strided(2, sc), epilogue: null },
  };
  const fused = runKernels([{ ...product, epilogue: { instructions, stores, reductions: [] } }], isa, slots);
  const alone = instructions.map((one) =>
    "from" in one && one.from.slot === -1 ? { ...one, from: { ...one.from, slot: 2 } } : one
  );
  const after: GroupKernel = {
    ...{ kernel: "group", name: "epilogue", sizes: [m, n] },
    stages: [{ instructions: alone, stores, reductions: [] }],
  };
  const apart = runKernels([product, after], isa, slots, false);
  const shape = `seed ${seed}: ${m} x ${n} x ${k}`;
  for (const { to: { slot } } of stores) {
    const [one, other] = [fused[slot], apart[slot]] as Float32Array[];
    if (!one.every((value, i) => same(value, other[i]))) return `${shape}: the epilogue differs`;
  }
  const [a, b, before] = slots as Float32Array[], c = apart[2] as Float32Array;
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      const at = i * sc[0] + j * sc[1];
      let sum = add ? before[at] : 0, size = Math.abs(sum);
      for (let p = 0; p < k; p++) {
        const term = a[i * sa[0] + p * sa[1]] * b[p * sb[0] + j * sb[1]];
        sum += term;
        size += Math.abs(term);
      }
      if (!(Math.abs(c[at] - sum) <= 1e-5 * size)) return `${shape}: ${c[at]}, not ${sum}`;
    }
  }
  return null;
}
