// Calls that fast plans write as simple ops give what libtorch's own ops give.
import { assert, assertEquals } from "@std/assert";
import { Builder, numelOf } from "../../../core/compile/builder.ts";
import { callGradients } from "../../../core/compile/call_rules.ts";
import { expanded } from "../../../core/compile/expand.ts";
import type { Graph, Ref } from "../../../core/compile/graph.ts";
import { setThreads } from "../../../ffi/context.ts";
import { add, scalar } from "../../../ffi/make.ts";
import { randn } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../libtorch.ts";
import { difference } from "./compiled.ts";
import { evaluate } from "./evaluate.ts";
import { planned } from "./planned.ts";

useLibtorch();
setThreads(1);

const FAST = { exact: false, adds: false }, ON_GPU = { ...FAST, libraryProducts: true };

const CONVOLUTION =
  "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, " +
  "bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor";

/** A call of these parameters, and its gradients for `back`, the next one. */
function withGradients(shapes: readonly (readonly number[])[], call: (b: Builder, p: Ref[]) => Ref): Graph {
  const b = new Builder();
  const given = shapes.map((shape, index) => b.tensor({ from: "parameter", index }, shape, "f32"));
  const y = call(b, given);
  const back = b.tensor({ from: "target" }, b.shape(y), "f32");
  const node = b.node(y);
  if (node.op !== "call") throw new Error("no call");
  const gradients = [...callGradients(b, y, node, [back], () => true)];
  return { nodes: b.nodes, output: y, loss: b.number(0), gradients, effects: [] };
}

/** The largest difference; and how many calls are left. */
function compared(graph: Graph): { worst: number; calls: number } {
  return scope(() => {
    const made = new Map<string, Tensor>();
    const find = (shape: readonly number[], key: string) => {
      if (!made.has(key)) made.set(key, randn(shape));
      return made.get(key)!;
    };
    const values = (g: Graph) =>
      evaluate(
        g,
        (origin) => {
          const node = g.nodes.find((one) =>
            one.op === "tensor" && JSON.stringify(one.origin) === JSON.stringify(origin)
          )!;
          return find(node.shape, JSON.stringify(origin));
        },
        [g.output, ...g.gradients.filter((r) => r !== null)],
      );
    const simple = expanded(graph, FAST), [a, b] = [values(graph), values(simple)];
    const worst = Math.max(
      ...a.map((t, i) => difference(b[i], t, Math.sqrt(numelOf(t.shape)) / 100)),
    );
    return { worst, calls: simple.nodes.filter(({ op }) => op === "call").length };
  });
}

interface Case {
  readonly input: readonly number[];
  readonly out: number;
  readonly kernel: readonly [number, number];
  readonly stride: readonly [number, number];
  readonly padding: readonly [number, number];
  /** Calls of libtorch's that stay. */
  /** At most so many are left to libtorch. */
  readonly calls: number;
}

const CASES: readonly Case[] = [
  { input: [3, 8, 1, 1], out: 5, kernel: [3, 3], stride: [1, 1], padding: [1, 1], calls: 0 },
  { input: [3, 8, 2, 2], out: 5, kernel: [3, 3], stride: [2, 2], padding: [1, 1], calls: 0 },
  { input: [3, 8, 2, 2], out: 5, kernel: [1, 1], stride: [2, 2], padding: [0, 0], calls: 0 },
  { input: [3, 4, 3, 2], out: 5, kernel: [3, 2], stride: [1, 1], padding: [0, 0], calls: 0 },
  { input: [3, 4, 5, 5], out: 5, kernel: [3, 3], stride: [4, 4], padding: [0, 0], calls: 0 },
  { input: [3, 8, 2, 2], out: 5, kernel: [3, 3], stride: [1, 1], padding: [1, 1], calls: 2 },
  { input: [3, 8, 4, 3], out: 5, kernel: [3, 3], stride: [2, 2], padding: [1, 1], calls: 2 },
  { input: [3, 8, 1, 4], out: 5, kernel: [3, 5], stride: [1, 1], padding: [1, 2], calls: 2 },
  { input: [3, 8, 4, 4], out: 5, kernel: [3, 3], stride: [1, 1], padding: [1, 1], calls: 2 },
];

const convolve =
  ({ stride, padding }: Pick<Case, "stride" | "padding">, result: readonly number[]) =>
  (b: Builder, [x, w, bias]: Ref[]): Ref =>
    b.call(
      CONVOLUTION,
      [
        ...[{ ref: x }, { ref: w }, bias === undefined ? null : { ref: bias }],
        ...[stride, padding, [1, 1], false, [0, 0], 1],
      ],
      [b.shape(x)[0], b.shape(w)[0], ...result],
    );

// The libraries that code opens stay open, and are no test's leak.
planned(withGradients([[1, 1, 1, 1], [1, 1, 1, 1]], convolve({ stride: [1, 1], padding: [0, 0] }, [1, 1])));

Deno.test("convolutions of small maps as products have libtorch's values and gradients", () => {
  for (const { input, out, kernel, stride, padding, calls } of CASES) {
    for (const bias of [true, false]) {
      const shapes = [input, [out, input[1], ...kernel], ...(bias ? [[out]] : [])];
      const result = [0, 1].map((i) =>
        Math.floor((input[2 + i] + 2 * padding[i] - kernel[i]) / stride[i]) + 1
      );
      const graph = withGradients(shapes, convolve({ stride, padding }, result));
      const found = compared(graph), about = JSON.stringify({ input, kernel, stride, padding, result });
      assert(found.worst < 1e-5, `${about}: ${found.worst}`);
      assert(found.calls <= calls, `${about}: ${found.calls} calls`);
      const { output, gradients } = planned(graph);
      assert(Math.max(output, ...gradients) < 1e-5, `${about} as a plan: ${output}, ${gradients}`);
    }
  }
});

const LAYER_NORM =
  "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> " +
  "(Tensor, Tensor, Tensor)";

Deno.test("layer norm as sums over rows has libtorch's values and gradients", () => {
  const cases = [[[6, 20], 1], [[3, 5, 33], 1], [[100, 4, 6], 2], [[7], 1]] as const;
  for (const [shape, dims] of cases) {
    const normalised = shape.slice(-dims);
    for (const given of [[], [normalised], [normalised, normalised]]) {
      const graph = withGradients([shape, ...given], (b, [x, w, bias]) =>
        b.call(
          LAYER_NORM,
          [{ ref: x }, normalised, ...[w, bias].map((r) => r === undefined ? null : { ref: r }), 1e-5],
          shape,
        ));
      const found = compared(graph), about = `${shape}, ${given.length} parameters`;
      assert(found.worst < 1e-5, `${about}: ${found.worst}`);
      assert(found.calls === 0, `${about}: ${found.calls} calls`);
      const { output, gradients } = planned(graph);
      assert(Math.max(output, ...gradients) < 1e-5, `${about} as a plan: ${output}, ${gradients}`);
    }
  }
});

const BATCH_NORM =
  "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, " +
  "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)";

Deno.test("batch norm as sums over columns has libtorch's values and gradients", () => {
  const shapes = [[6, 4], [3, 5, 7], [4, 16, 5, 3], [2, 3, 2, 3, 2]];
  for (const shape of shapes) {
    for (const affine of [true, false]) {
      const channels = [shape[1]];
      const graph = withGradients(
        [shape, ...(affine ? [channels, channels] : [])],
        (b, [x, w, bias]) =>
          b.call(
            BATCH_NORM,
            [
              { ref: x },
              ...[w, bias].map((r) => r === undefined ? null : { ref: r }),
              null,
              null,
              true,
              0.1,
              1e-5,
            ],
            shape,
          ),
      );
      const found = compared(graph), about = `[${shape}], ${affine}`;
      assert(found.worst < 1e-5 && found.calls === 0, `${about}: ${found.worst}, ${found.calls} calls`);
      const { output, gradients } = planned(graph);
      assert(Math.max(output, ...gradients) < 1e-5, `${about} as a plan: ${output}, ${gradients}`);
    }
  }
});

const MOVING =
  "_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, " +
  "Tensor running_var, bool training, float momentum, float eps) -> " +
  "(Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)";

/** A norm that moves its running statistics; `reads` one of them elsewhere, before or behind it. */
function moving(reads: "before" | "behind" | null): Graph {
  const b = new Builder(), shape = [4, 3, 5, 5], x = b.tensor({ from: "input" }, shape, "f32");
  const scale = b.tensor({ from: "parameter", index: 0 }, [3], "f32");
  const statistics = [0, 1].map((index) => b.tensor({ from: "held", index }, [3], "f32"));
  const [mean, variance] = statistics.map((ref) => ({ ref }));
  const y = b.call(MOVING, [{ ref: x }, { ref: scale }, null, mean, variance, true, 0.1, 1e-5], shape);
  const moved = [3, 4].map((index) => b.result(y, index, [3]));
  const other = reads === null ? b.number(0) : reads === "before" ? mean.ref : moved[0];
  const loss = b.sum(b.pointwise("mul", b.reshape(b.sum(y, [0, 2, 3]), [3]), other), [0]);
  const writes = moved.map((ref, held) => ({ ref, held }));
  const output = b.reshape(loss, []);
  return { nodes: b.nodes, output, loss: output, gradients: [], effects: [], writes };
}

Deno.test("on a GPU libtorch's norm moves its running statistics itself, if nobody else reads them", () => {
  const callsIn = ({ nodes }: Graph) =>
    nodes.flatMap((node) => node.op === "call" ? [node.schema.split("(")[0]] : []);
  const alone = expanded(moving(null), ON_GPU);
  assertEquals([callsIn(alone), alone.effects.length, alone.writes], [["_batch_norm_with_update"], 1, []]);
  for (const reads of ["before", "behind"] as const) {
    const read = expanded(moving(reads), ON_GPU);
    assertEquals([callsIn(read), read.effects, read.writes!.length], [[], [], 2]);
  }
});

Deno.test("a channel's variance keeps its digits where its mean is far from zero", () => {
  const b = new Builder();
  const x = b.tensor({ from: "input" }, [8, 4, 9, 9], "f32");
  const y = b.call(BATCH_NORM, [{ ref: x }, null, null, null, null, true, 0.1, 1e-5], [8, 4, 9, 9]);
  const graph: Graph = { nodes: b.nodes, output: y, loss: b.number(0), gradients: [], effects: [] };
  const input = (size: readonly number[]) => add(randn(size), scalar(1000));
  // The numbers themselves are good to 6e-5.
  assert(planned(graph, { input }).output < 1e-4);
});
