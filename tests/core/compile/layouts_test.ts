// Which convolutions a fast plan gives images that lie channels last.
import { assertEquals } from "@std/assert";
import { Builder } from "../../../core/compile/builder.ts";
import type { Graph } from "../../../core/compile/graph.ts";
import { arranged } from "../../../core/compile/layouts.ts";

const CONVOLUTION =
  "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, " +
  "bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor";

/** Whether the one convolution of a graph, over images of 8 x 8, is given them so. */
function isTurned(channels: number, kernel: number, stride: number): boolean {
  const b = new Builder(), places = Math.floor((8 - kernel) / stride) + 1;
  const x = b.tensor({ from: "input" }, [2, channels, 8, 8], "f32");
  const w = b.tensor({ from: "parameter", index: 0 }, [16, channels, kernel, kernel], "f32");
  const given = [{ ref: x }, { ref: w }, null, [stride, stride], [0, 0], [1, 1], false, [0, 0], 1];
  const output = b.call(CONVOLUTION, given, [2, 16, places, places]);
  const loss = b.reshape(b.sum(output, [0, 1, 2, 3]), []);
  const graph: Graph = { nodes: b.nodes, output, loss, gradients: [], effects: [] };
  return arranged(graph, true).nodes.some((node) => node.op === "call" && node.last === true);
}

Deno.test("a kernel of one place that skips places of few channels gets none, since libtorch would write past its memory", () => {
  assertEquals([isTurned(3, 1, 2), isTurned(7, 1, 2)], [false, false]);
  assertEquals([isTurned(8, 1, 2), isTurned(3, 1, 1), isTurned(3, 3, 2)], [true, true, true]);
});
