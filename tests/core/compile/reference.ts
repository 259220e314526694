// Graphs and plans computed in plain TypeScript, number by number, to compare what fusing and placing make of a graph.
import { roundedTo } from "../../../core/compile/fold.ts";
import { count, rowMajor } from "../../../core/compile/access.ts";
import type { Graph, Node, Ref } from "../../../core/compile/graph.ts";
import type { CallPart, CallTensor, Home } from "../../../core/compile/program.ts";
import type {
  BlasKernel,
  GemmKernel,
  GroupKernel,
  Instruction,
  Stage,
  StridedAccess,
} from "../../../core/compile/kernel.ts";
import type { Placed } from "../../../core/compile/place.ts";

const f32 = Math.fround;

function erf(x: number): number {
  let sum = 0, term = x;
  for (let n = 0; n < 60; n++) {
    sum += term / (2 * n + 1);
    term *= -x * x / (n + 1);
  }
  return Math.abs(x) > 4 ? Math.sign(x) : 2 / Math.sqrt(Math.PI) * sum;
}

const OPS: Readonly<Record<string, (...args: number[]) => number>> = {
  neg: (a) => -a,
  abs: Math.abs,
  sign: Math.sign,
  sqrt: Math.sqrt,
  rsqrt: (a) => 1 / Math.sqrt(a),
  reciprocal: (a) => 1 / a,
  exp: Math.exp,
  expm1: Math.expm1,
  log: Math.log,
  log1p: Math.log1p,
  tanh: Math.tanh,
  sigmoid: (a) => 1 / (1 + Math.exp(-a)),
  erf,
  sin: Math.sin,
  cos: Math.cos,
  floor: Math.floor,
  bf16: (a) => roundedTo("bf16", a),
  f16: (a) => roundedTo("f16", a),
  float: (a) => a,
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  pow: Math.pow,
  max: Math.max,
  min: Math.min,
  lt: (a, b) => Number(a < b),
  le: (a, b) => Number(a <= b),
  gt: (a, b) => Number(a > b),
  ge: (a, b) => Number(a >= b),
  eq: (a, b) => Number(a === b),
  ne: (a, b) => Number(a !== b),
  and: (a, b) => Number(a !== 0 && b !== 0),
  or: (a, b) => Number(a !== 0 || b !== 0),
  not: (a) => Number(a === 0),
  where: (c, a, b) => c !== 0 ? a : b,
  fma: (a, b, c) => a * b + c,
};

const indices = (shape: readonly number[], at: number): number[] =>
  rowMajor(shape).map((stride, i) => Math.floor(at / stride) % shape[i]);

const at = (shape: readonly number[], index: readonly number[]): number => {
  const behind = index.length - shape.length;
  return rowMajor(shape).reduce(
    (sum, stride, i) => sum + stride * (shape[i] === 1 ? 0 : index[behind + i]),
    0,
  );
};

/** Every value of a graph, in row-major order. */
export function evaluate(graph: Graph, given: (home: Home) => ArrayLike<number>): Float64Array[] {
  const values: Float64Array[] = [];
  graph.nodes.forEach((node, ref) => values[ref] = valuesOf(graph, node, values, given));
  return values;
}

function valuesOf(
  graph: Graph,
  node: Node,
  values: readonly Float64Array[],
  given: (home: Home) => ArrayLike<number>,
): Float64Array {
  const { shape } = node, size = count(shape);
  const shapeOf = (ref: Ref) => graph.nodes[ref].shape;
  const each = (value: (index: number[], i: number) => number) =>
    Float64Array.from({ length: size }, (_, i) => f32(value(indices(shape, i), i)));
  const read = (ref: Ref, index: readonly number[]) => values[ref][at(shapeOf(ref), index)];
  switch (node.op) {
    case "tensor":
      return Float64Array.from(given(node.origin));
    case "number":
      return each(() => node.value);
    case "sum":
    case "amax": {
      const [x] = node.args, from = shapeOf(x);
      const result = new Float64Array(size).fill(node.op === "sum" ? 0 : -Infinity);
      values[x].forEach((value, i) => {
        const to = at(shape, indices(from, i).map((k, d) => node.dims.includes(d) ? 0 : k));
        result[to] = node.op === "sum" ? result[to] + value : Math.max(result[to], value);
      });
      return result.map(f32);
    }
    case "gemm": {
      const [a, b] = node.args;
      const k = shapeOf(a).at(node.transposeA ? -2 : -1)!;
      return each((index) => {
        const outer = index.slice(0, -2), [i, j] = index.slice(-2);
        let sum = 0;
        for (let l = 0; l < k; l++) {
          sum += read(a, [...outer, ...(node.transposeA ? [l, i] : [i, l])]) *
            read(b, [...outer, ...(node.transposeB ? [j, l] : [l, j])]);
        }
        return sum;
      });
    }
    case "reshape":
    case "copy":
      return values[node.args[0]].slice();
    case "expand":
      return each((index) => read(node.args[0], index));
    case "permute":
      return each((index) => {
        const source = new Array<number>(index.length);
        node.dims.forEach((dim, i) => source[dim] = index[i]);
        return read(node.args[0], source);
      });
    case "slice":
      return each((index) => read(node.args[0], index.with(node.dim, index[node.dim] + node.start)));
    case "embed": {
      const length = shapeOf(node.args[0])[node.dim];
      return each((index) => {
        const i = index[node.dim] - node.start;
        return i < 0 || i >= length ? 0 : read(node.args[0], index.with(node.dim, i));
      });
    }
    case "cat":
      return each((index) => {
        let i = index[node.dim], part = 0;
        while (i >= shapeOf(node.args[part])[node.dim]) i -= shapeOf(node.args[part++])[node.dim];
        return read(node.args[part], index.with(node.dim, i));
      });
    case "call":
    case "result":
      throw new Error("No calls here.");
    default: {
      const args = (node as { args: readonly Ref[] }).args;
      return each((index) => OPS[node.op](...args.map((arg) => read(arg, index))));
    }
  }
}

/** Runs a plan. Memory begins as NaN, so that what is read before it is written shows. */
export function run(placed: Placed, given: (home: Home) => Float32Array): void {
  const tables: Float32Array[] = placed.slots.map((slot) =>
    slot.from === "memory"
      ? new Float32Array(placed.elements).fill(NaN)
      : slot.from === "result"
      ? new Float32Array(0)
      : given(slot)
  );
  for (const part of placed.parts) {
    if (part.kernel === "group") group(part, tables);
    else if (part.kernel === "gemm") gemm(part, tables);
    else if (part.kernel === "blas") blas(part, tables);
    else if (part.kernel === "vector") {
      const { from, to } = part, op = OPS[part.function];
      for (let i = 0; i < part.elements; i++) {
        tables[to.slot][to.offset + i] = op(tables[from.slot][from.offset + i]);
      }
    } else products(part, tables);
  }
}

/** bmm is the one call that fusing makes by itself here. */
function products({ name, tensors, results: [{ slot }] }: CallPart, tables: Float32Array[]): void {
  if (name !== "bmm") throw new Error(`No ${name} here.`);
  const [a, b] = [...tensors.values()];
  const [batch, m, k] = a.sizes, n = b.sizes[2];
  const read = ({ slot, offset, strides }: CallTensor, index: number[]) =>
    tables[slot][placeOf({ slot, offset, strides, kind: "f32" }, index)];
  tables[slot] = new Float32Array(batch * m * n);
  for (let at = 0; at < batch * m * n; at++) {
    const [i, row, column] = indices([batch, m, n], at);
    let sum = 0;
    for (let l = 0; l < k; l++) sum += read(a, [i, row, l]) * read(b, [i, l, column]);
    tables[slot][at] = sum;
  }
}

type Tables = readonly Float32Array[];

const placeOf = ({ offset, strides }: StridedAccess, index: readonly number[]): number =>
  strides.reduce((sum, stride, i) => sum + stride * index[i], offset);

function checked(tables: Tables, walk: StridedAccess, index: readonly number[]): number {
  const place = placeOf(walk, index);
  if (place < 0 || place >= tables[walk.slot].length) {
    throw new Error(`${place} is outside of slot ${walk.slot}.`);
  }
  return place;
}

function compute(
  instructions: readonly Instruction[],
  index: readonly number[],
  tables: Tables,
  rows: readonly number[],
  product = NaN,
): number[] {
  const values: number[] = [];
  for (const one of instructions) {
    if ("from" in one) {
      values.push(one.from.slot === -1 ? product : tables[one.from.slot][checked(tables, one.from, index)]);
    } else if ("value" in one) values.push(one.value);
    else if ("reduction" in one) values.push(rows[one.reduction]);
    else values.push(f32(OPS[one.op](...one.args.map((arg) => values[arg]))));
  }
  return values;
}

const combine = (op: "sum" | "amax", a: number, b: number) => op === "sum" ? a + b : Math.max(a, b);
const initial = (op: "sum" | "amax") => op === "sum" ? 0 : -Infinity;

function group({ sizes, stages }: GroupKernel, tables: Tables): void {
  const outer = sizes.slice(0, -1), inner = sizes.at(-1)!;
  const wide = new Map<object, Map<number, number>>();
  for (let row = 0; row < count(outer); row++) {
    const rows: number[] = [];
    for (const stage of stages) {
      const sums = stage.reductions.filter(({ over }) => over === "row").map(({ op }) => initial(op));
      for (let column = 0; column < inner; column++) {
        const index = [...indices(outer, row), column];
        const values = compute(stage.instructions, index, tables, rows);
        for (const { value, to } of stage.stores) tables[to.slot][checked(tables, to, index)] = values[value];
        let next = 0;
        for (const reduction of stage.reductions) {
          if (reduction.over === "row") {
            sums[next] = combine(reduction.op, sums[next], values[reduction.value]);
            next++;
            continue;
          }
          if (!wide.has(reduction)) wide.set(reduction, new Map());
          const found = wide.get(reduction)!, key = reduction.over === "column" ? column : 0;
          found.set(
            key,
            combine(reduction.op, found.get(key) ?? initial(reduction.op), values[reduction.value]),
          );
        }
      }
      const own = stage.reductions.filter(({ over }) => over === "row");
      own.forEach(({ to }, i) => {
        rows.push(f32(sums[i]));
        if (to) tables[to.slot][checked(tables, to, [...indices(outer, row), 0])] = sums[i];
      });
    }
  }
  for (const { reductions } of stages) {
    for (const reduction of reductions) {
      for (const [column, value] of wide.get(reduction) ?? []) {
        const { to } = reduction;
        tables[to!.slot][checked(tables, to!, [...outer.map(() => 0), column])] = value;
      }
    }
  }
}

function epilogue(stage: Stage, index: readonly number[], tables: Tables, product: number): void {
  const values = compute(stage.instructions, index, tables, [], product);
  for (const { value, to } of stage.stores) tables[to.slot][checked(tables, to, index)] = values[value];
}

function gemm(kernel: GemmKernel, tables: Tables): void {
  const { m, n, k, a, b, c, add } = kernel;
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      let sum = 0;
      for (let l = 0; l < k; l++) {
        sum += tables[a.slot][checked(tables, a, [i, l])] * tables[b.slot][checked(tables, b, [l, j])];
      }
      if (kernel.epilogue) epilogue(kernel.epilogue, [i, j], tables, f32(sum));
      else tables[c.slot][checked(tables, c, [i, j])] = sum + (add ? tables[c.slot][placeOf(c, [i, j])] : 0);
    }
  }
}

function blas({ transA, transB, m, n, k, a, lda, b, ldb, c, ldc, beta }: BlasKernel, tables: Tables): void {
  const [A, B, C] = [tables[a.slot], tables[b.slot], tables[c.slot]];
  for (let j = 0; j < n; j++) {
    for (let i = 0; i < m; i++) {
      let sum = 0;
      for (let l = 0; l < k; l++) {
        sum += A[a.offset + (transA ? l + i * lda : i + l * lda)] *
          B[b.offset + (transB ? j + l * ldb : l + j * ldb)];
      }
      const at = c.offset + i + j * ldc;
      C[at] = sum + (beta ? C[at] : 0);
    }
  }
}
