// A loop reads elements of a value: each dimension's index is a sum of loop counters. Views only change indices, so most
// of them cost nothing.
import type { Graph, Node, Ref } from "./graph.ts";

/** offset + the sum of coefficients times the loops' counters. */
interface AffineIndex {
  readonly offset: number;
  readonly coefficients: readonly number[];
}

/** One per dimension of a value. */
export type Access = readonly AffineIndex[];

/** Elements from the first one, in memory in row-major order. */
interface LinearAccess {
  readonly offset: number;
  readonly strides: readonly number[];
}

export const count = (shape: readonly number[]): number => shape.reduce((all, size) => all * size, 1);

/** Elements from one place of each dimension to the next, in row-major order. */
export function rowMajor(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let stride = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

/** Loops run over the dimensions that have more than one place. */
export const loopsOver = (shape: readonly number[]): number[] => shape.filter((size) => size > 1);

const nothings: AffineIndex[] = [];
const nothing = (loops: number): AffineIndex =>
  nothings[loops] ??= { offset: 0, coefficients: new Array<number>(loops).fill(0) };

const wholes = new WeakMap<readonly number[], Access>();

/** Each loop accesses its own dimension. */
export function wholeAccess(shape: readonly number[]): Access {
  let whole = wholes.get(shape);
  if (whole) return whole;
  const none = nothing(loopsOver(shape).length);
  let next = 0;
  whole = shape.map((size) =>
    size > 1 ? { offset: 0, coefficients: none.coefficients.with(next++, 1) } : none
  );
  wholes.set(shape, whole);
  return whole;
}

const keys = new WeakMap<Access, string>();

/** Equal accesses have equal keys. */
export function accessKey(access: Access): string {
  let key = keys.get(access);
  if (key === undefined) {
    key = access.map(({ offset, coefficients }) => `${offset}:${coefficients}`).join(";");
    keys.set(access, key);
  }
  return key;
}

/** NumPy's broadcasting reads these elements of an operand of `shape`. */
export function broadcastAccess(access: Access, shape: readonly number[], loops: number): Access {
  const behind = access.length - shape.length;
  if (behind === 0 && !shape.includes(1)) return access;
  return shape.map((size, i) => size === 1 ? nothing(loops) : access[behind + i]);
}

export function linearAccess(access: Access, shape: readonly number[], loops: number): LinearAccess {
  const strides = new Array<number>(loops).fill(0);
  let offset = 0, step = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    const { offset: begin, coefficients } = access[i];
    offset += begin * step;
    for (let k = 0; k < coefficients.length; k++) strides[k] += coefficients[k] * step;
    step *= shape[i];
  }
  return { offset, strides };
}

/** The indices of a value of `shape` at this place of its row-major order; null where they are no sums of counters. */
export function indicesAt(
  { offset, strides }: LinearAccess,
  shape: readonly number[],
  sizes: readonly number[],
): Access | null {
  const steps = rowMajor(shape), access: AffineIndex[] = [];
  let rest = offset;
  const left = [...strides];
  for (let i = 0; i < shape.length; i++) {
    if (shape[i] === 1) {
      access.push(nothing(sizes.length));
      continue;
    }
    const at = Math.floor(rest / steps[i]);
    rest -= at * steps[i];
    let last = at;
    const coefficients = left.map((stride, k) => {
      if (stride < steps[i]) return 0;
      if (stride % steps[i] !== 0) return NaN;
      last += stride / steps[i] * (sizes[k] - 1);
      left[k] = 0;
      return stride / steps[i];
    });
    if (coefficients.includes(NaN) || last >= shape[i]) return null;
    access.push({ offset: at, coefficients });
  }
  return left.every((stride) => stride === 0) && rest === 0 ? access : null;
}

/** A view's source, and what is read of it; null where a copy must come first. */
export function through(graph: Graph, node: Node, access: Access, sizes: readonly number[]): Access | null {
  const loops = sizes.length;
  switch (node.op) {
    case "reshape":
      return indicesAt(linearAccess(access, node.shape, loops), graph.nodes[node.args[0]].shape, sizes);
    case "expand":
      return broadcastAccess(access, graph.nodes[node.args[0]].shape, loops);
    case "permute": {
      const source = new Array<AffineIndex>(access.length);
      node.dims.forEach((dim, i) => source[dim] = access[i]);
      return source;
    }
    case "slice": {
      const index = access[node.dim];
      return access.with(node.dim, { ...index, offset: index.offset + node.start });
    }
    default:
      throw new Error(`internal: ${node.op} is no view.`);
  }
}

export const isView = ({ op }: Node): boolean =>
  op === "reshape" || op === "expand" || op === "permute" || op === "slice";

/** The memory that a value lies in, as strides over its own dimensions that are longer than 1; null: it lies in none. */
export interface Located extends LinearAccess {
  readonly base: Ref;
}

/** Follows views to a value in memory. Returns the value that is to be put there where it is not. */
export function locate(
  graph: Graph,
  ref: Ref,
  inMemory: (ref: Ref) => boolean,
): Located | { readonly missing: Ref } {
  const sizes = loopsOver(graph.nodes[ref].shape);
  let access = wholeAccess(graph.nodes[ref].shape), at = ref;
  for (;;) {
    const node = graph.nodes[at];
    if (inMemory(at)) return { base: at, ...linearAccess(access, node.shape, sizes.length) };
    if (!isView(node)) return { missing: at };
    const source = (node as { args: readonly Ref[] }).args[0];
    if (node.op === "reshape" && inMemory(source)) {
      return { base: source, ...linearAccess(access, node.shape, sizes.length) };
    }
    const next = through(graph, node, access, sizes);
    if (next === null) return { missing: source }; // laid out in its own order, it can be read in any shape
    access = next;
    at = source;
  }
}
