// Runs a graph as a plan, and compares its output and gradients with what libtorch computes node by node. Test helper.
import { numelOf } from "../../../core/compile/builder.ts";
import type { Graph } from "../../../core/compile/graph.ts";
import { makePlan } from "../../../core/compile/plan.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { uninitialised, zeros } from "../../../ffi/make.ts";
import { copy_, narrow, randn, reshape } from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { difference } from "./compiled.ts";
import { evaluate } from "./evaluate.ts";

/** The largest difference of each gradient, and of the output; the names of the plan's parts. */
export interface Planned {
  readonly output: number;
  readonly gradients: readonly number[];
  readonly parts: readonly string[];
}

interface How {
  readonly exact?: boolean;
  readonly adds?: boolean;
  /** Made of the input's shape. */
  readonly input?: (shape: readonly number[]) => Tensor;
}

/** Its tensors are its parameters, an input and a target of any shape. */
export function planned(
  graph: Graph,
  { exact = false, adds = false, input: made = (shape) => randn(shape) }: How = {},
): Planned {
  const shapeOf = (from: string, index = -1): readonly number[] | undefined =>
    graph.nodes.find((node) =>
      node.op === "tensor" && node.origin.from === from && (index < 0 || "index" in node.origin &&
          node.origin.index === index)
    )?.shape;
  return scope(() => {
    const shapes = graph.gradients.map((_, i) => shapeOf("parameter", i) ?? []);
    const sizes = shapes.map(numelOf), all = sizes.reduce((sum, size) => sum + size, 0);
    const starts = sizes.map((_, i) => sizes.slice(0, i).reduce((sum, size) => sum + size, 0));
    const flat = randn([all]), gradient = zeros([all]);
    const of = (t: Tensor, i: number) => reshape(narrow(t, 0, starts[i], sizes[i]), shapes[i]);
    const input = made(shapeOf("input") ?? [1]), target = randn(shapeOf("target") ?? [1]);
    const output = uninitialised(graph.nodes[graph.output].shape), losses = zeros([16]);
    const plan = makePlan(graph, { flat, gradient, starts, held: [], output, losses }, {
      ...{ exact, adds, isa: machineIsa()!, threads: 1 },
    });
    if ("lacks" in plan) throw new Error(`no plan: ${plan.name}`);
    const before = keep(zeros([all]));
    if (adds) noGrad(() => copy_(gradient, copy_(before, randn([all]))));
    plan.run(input, target, null, 0);
    plan.run(input, target, null, 0);
    const wanted = evaluate(
      graph,
      (origin) =>
        origin.from === "input" ? input : origin.from === "parameter" ? of(flat, origin.index) : target,
      [graph.output, ...graph.gradients.map((r) => r ?? graph.loss)],
    );
    const floor = (t: Tensor) => Math.sqrt(numelOf(t.shape)) / 100;
    const [theirs, ...gradients] = wanted;
    const found = {
      output: difference(output, theirs, floor(theirs)),
      gradients: gradients.map((t, i) =>
        graph.gradients[i] === null ? 0 : difference(of(gradient, i), t, floor(t))
      ),
      parts: plan.placed.parts.map(({ name }) => name),
    };
    plan.free();
    before.free();
    return found;
  });
}
