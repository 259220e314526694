// Some values are libtorch's own business. A plan calls its ops for them, or MKL's functions of many numbers.
import { isOpaque, liesByTokens } from "./attentions.ts";
import { count, isView, loopsOver, rowMajor } from "./access.ts";
import { argsOf } from "./uses.ts";
import { copied } from "./copies.ts";
import type { Draft } from "./draft.ts";
import { type Graph, isHalf, type Node, type Ref } from "./graph.ts";
import { NotInMemory } from "./group.ts";
import type { VectorKernel } from "./kernel.ts";
import type { CallResult, CallTensor } from "./program.ts";

const BMM = "bmm(Tensor self, Tensor mat2) -> Tensor";
/** libtorch adds these up as f32, of half precision, and leaves them so. */
const WIDENED_BMM = "bmm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor";

const nameOf = (schema: string): string => schema.split("(")[0];

/** libtorch's op in place of a value's own, for its bits. It gives a tensor of its own, so a result is copied to its place. */
export function callFor(
  draft: Draft,
  ref: Ref,
  schema: string,
  values: readonly unknown[],
  tensors: readonly (readonly [Ref, CallTensor])[],
): void {
  const at = draft.parts.length, call = draft.calls++;
  const slot = draft.define(ref, at, { from: "result", call, index: 0 });
  const results: CallResult[] = [{ slot, index: 0, lies: "first" }];
  draft.parts.push({
    ...{ kernel: "call", name: nameOf(schema), schema, values, results },
    tensors: new Map(tensors),
  });
  const home = draft.homes.get(ref);
  if (home !== undefined) copied(draft, ref, home, draft.addsTo.has(ref));
}

/** How a call's tensor lies in memory. */
const liesOf = (
  schema: string,
  index: number,
  { shape, last }: { readonly shape: readonly number[]; readonly last?: boolean },
): CallResult["lies"] =>
  isOpaque(shape) ? "opaque" : liesByTokens(schema, index) ? "tokens" : last ? "last" : "first";

/** A call of the graph. `used`: whether a result is read by anybody. */
export function callOp(
  draft: Draft,
  ref: Ref,
  node: Node & { op: "call" },
  used: (ref: Ref) => boolean,
): void {
  const call = draft.calls++, at = draft.parts.length;
  const tensors = new Map(node.args.map((arg) => draft.argument(arg)));
  const slot = draft.define(ref, at, { from: "result", call, index: 0 });
  // libtorch makes no tensor of a gradient that nobody asks for.
  const results: CallResult[] = used(ref) ? [{ slot, index: 0, lies: liesOf(node.schema, 0, node) }] : [];
  for (const { ref: other, made } of draft.resultsOf.get(ref) ?? []) {
    if (!used(other)) continue;
    results.push({
      slot: draft.define(other, at, { from: "result", call, index: made.index }),
      index: made.index,
      lies: liesOf(node.schema, made.index, made),
    });
  }
  const { schema, values } = node;
  draft.parts.push({ kernel: "call", name: nameOf(schema), schema, values, tensors, results });
}

export function callBmm(
  draft: Draft,
  ref: Ref,
  { args: [a, b], transposeA, transposeB }: Node & { op: "gemm" },
): void {
  const turned = (arg: Ref, transposed: boolean): CallTensor => {
    const [, tensor] = draft.argument(arg), { sizes, strides } = tensor;
    const outer = count(sizes.slice(0, -2)), [rows, columns] = sizes.slice(-2);
    const steps = strides.slice(-2),
      step = sizes.length === 3 ? strides[0] : outerStride(arg, sizes, strides);
    return transposed
      ? { ...tensor, own: false, sizes: [outer, columns, rows], strides: [step, steps[1], steps[0]] }
      : { ...tensor, own: false, sizes: [outer, rows, columns], strides: [step, ...steps] };
  };
  // The same value may be both operands, in two forms.
  const values = [{ ref: -1 }, { ref: -2 }],
    widens = draft.graph.nodes[ref].half === undefined &&
      isHalf(draft.stridesOf(a).kind);
  const schema = widens ? WIDENED_BMM : BMM;
  callFor(draft, ref, schema, widens ? [...values, "f32"] : values, [[-1, turned(a, transposeA)], [
    -2,
    turned(b, transposeB),
  ]]);
}

/** One stride over all dimensions before the last two; a copy where there is none. */
function outerStride(ref: Ref, sizes: readonly number[], strides: readonly number[]): number {
  const outer = sizes.slice(0, -2).flatMap((size, i) => size > 1 ? [i] : []);
  for (let i = 1; i < outer.length; i++) {
    if (strides[outer[i - 1]] !== strides[outer[i]] * sizes[outer[i]]) throw new NotInMemory(ref);
  }
  return outer.length === 0 ? 1 : strides[outer.at(-1)!];
}

export type Vector = Node & { op: VectorKernel["function"]; args: readonly [Ref] };

/** In exact plans: a function of a whole value that libtorch takes from MKL. */
export function mklFunction(draft: Draft, ref: Ref, { op, args: [source], shape }: Vector): void {
  const { base, offset, strides } = draft.located(source);
  if (String(strides) !== String(rowMajor(loopsOver(shape)))) throw new NotInMemory(source);
  const from = { slot: draft.bufferOf.get(base)!, offset };
  const to = { slot: draft.define(ref), offset: 0 };
  draft.parts.push({ kernel: "vector", name: op, function: op, elements: count(shape), from, to });
}

export type Sigmoid = Node & { op: "sigmoid"; args: readonly [Ref] };

/** libtorch's loop takes so many numbers at once, and those that are left one by one, whose exp has other last bits. */
const AT_ONCE = 16;
/** More numbers are divided among threads, each with some that are left. */
const GRAIN = 32_768;

export function sigmoidHasTail(graph: Graph, { args: [source], shape }: Sigmoid, threads: number): boolean {
  let node = graph.nodes[source];
  for (; isView(node); node = graph.nodes[argsOf(node)[0]]) {
    if (node.op === "slice" || node.op === "expand") return true; // row by row
  }
  const all = count(shape);
  return all % AT_ONCE !== 0 || threads > 1 && all >= GRAIN;
}

export function callSigmoid(draft: Draft, ref: Ref, { args: [source] }: Sigmoid): void {
  callFor(draft, ref, "sigmoid(Tensor self) -> Tensor", [{ ref: source }], [draft.argument(source)]);
}
