// Draws for samples in evaluation, where a graph draws there, too (a loss of noise, a latent code). The numbers depend
// on the seed, the sample and the draw, so that a sample gets the same ones in any batch and on any rank.
import { manualSeed } from "../../../ffi/context.ts";
import { cat, narrow } from "../../../ffi/ops.ts";
import type { Operator } from "../../../ffi/operators.ts";
import { Tensor } from "../../../ffi/tensor.ts";
import { key } from "../../base/random.ts";
import { drawingNodes, draws } from "./admitted.ts";
import type { ExportedProgram, GraphNode, SymbolicSize } from "./graph.ts";
import { valueNames } from "./inline.ts";
import { type GraphFrame, resolveOperator, symbolIn } from "./operators.ts";

type Call = (...args: unknown[]) => unknown;

/** The nodes that draw in evaluation, too. libtorch's schemas show what draws. */
export const drawnWhileJudged = (program: ExportedProgram): GraphNode[] =>
  drawingNodes(program, ({ target }) => {
    const found = resolveOperator(target);
    return found.kind === "op" && draws(found.name, found.op);
  });

/** Those of them that an output depends on which is more than one number: a loss may draw what it likes. */
export function drawnPredictions(program: ExportedProgram): GraphNode[] {
  const predictions = program.outputs.flatMap(({ kind, value }) =>
    kind === "user" && value.kind === "tensor" && !isOneNumber(program, value.name) ? [value.name] : []
  );
  return drawnWhileJudged(program).filter((node) => {
    const behind = behindOf(program, node);
    return predictions.some((name) => behind.has(name));
  });
}

const isOneNumber = ({ tensors }: ExportedProgram, name: string): boolean =>
  ["", "1"].includes(tensors.get(name)?.sizes.join() ?? "");

/** The names of all that is made from what a node gives, and of what such values are written to. */
function behindOf({ nodes }: ExportedProgram, from: GraphNode): ReadonlySet<string> {
  const behind = new Set<string>();
  for (const node of nodes.slice(nodes.indexOf(from))) {
    const given = node.inputs.flatMap(({ value }) => valueNames(value));
    if (node !== from && !given.some((name) => behind.has(name))) continue;
    for (const name of node.outputs.flatMap(valueNames)) behind.add(name);
    if (/_\.\w+$/.test(node.target) && given.length > 0) behind.add(given[0]);
  }
  return behind;
}

/** How many rows of what a node gives belong to a sample; 0 where it has no row for each. */
export function rowsOfSample({ inputs, tensors }: ExportedProgram, { outputs: [made] }: GraphNode): number {
  const first = inputs.find((input) => input.kind === "user" && input.value.kind === "tensor");
  const name = first?.kind === "user" && first.value.kind === "tensor" ? first.value.name : "";
  const batch = tensors.get(name)?.sizes[0],
    rows = made?.kind === "tensor" ? tensors.get(made.name)?.sizes[0] : 0;
  const [given, own] = [batch, rows].map(termOf);
  return given && own && given.symbol === own.symbol && own.times % given.times === 0
    ? own.times / given.times
    : 0;
}

const termOf = (size: SymbolicSize | undefined): { symbol: string; times: number } | null =>
  typeof size === "number" ? { symbol: `${size}`, times: 1 } : size === undefined ? null : symbolIn(size);

/** The same call, which draws sample by sample; `draw` is its number in the graph. */
export function drawnForSamples(
  call: Call,
  { schema: { args, returns } }: Operator,
  { draw, rows, written }: { readonly draw: number; readonly rows: number; readonly written: number },
): (frame: GraphFrame) => Call {
  const sizes = args.findIndex(({ name, list }) => name === "size" && list);
  const shapeOf = (given: readonly unknown[]): readonly number[] =>
    sizes >= 0
      ? given[sizes] as number[]
      : given[Math.max(written, 0)] instanceof Tensor
      ? (given[Math.max(written, 0)] as Tensor).shape
      : [];
  return ({ judged, training }) => (...given) => {
    if (!judged || training) return call(...given);
    const { seed, ids } = judged, [length] = shapeOf(given);
    const perSample = rows > 0 && returns.length === 1 && length === rows * ids.length;
    if (!perSample) {
      manualSeed(key(seed, "judged", draw));
      return call(...given);
    }
    const own = (value: unknown, i: number) =>
      value instanceof Tensor && value.shape[0] === length ? narrow(value, 0, i * rows, rows) : value;
    const parts = Array.from(ids, (id, i) => {
      manualSeed(key(seed, "judged", draw, id));
      return call(
        ...given.map((value, at) => at === sizes ? [rows, ...(value as number[]).slice(1)] : own(value, i)),
      );
    });
    return written >= 0 ? given[written] : cat(parts as Tensor[], 0);
  };
}
