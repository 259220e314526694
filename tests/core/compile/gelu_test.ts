// Exact plans compute gelu and its gradient in loops of their own: with libtorch's bits, also where numbers are large,
// small, infinite or none.
import { assertEquals } from "@std/assert";
import { Builder } from "../../../core/compile/builder.ts";
import { fuse } from "../../../core/compile/fuse.ts";
import type { Kernel } from "../../../core/compile/kernel.ts";
import { aten } from "../../../ffi/aten.ts";
import { setThreads } from "../../../ffi/context.ts";
import { tensor, toNumbers } from "../../../ffi/make.ts";
import { scope } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../libtorch.ts";
import { ISAS, runKernels } from "./x86/harness.ts";

useLibtorch();
setThreads(1);

const GELU = "gelu(Tensor self, *, str approximate='none') -> Tensor";
const BACKWARD = "gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor";
const COUNT = 64 * 37;

const SPECIAL = [0, -0, 1e-40, -1e-30, 1e30, -3e38, Infinity, -Infinity, NaN, 88, -88];
const numbers = (seed: number, wide: number): Float32Array =>
  Float32Array.from(
    { length: COUNT },
    (_, i) => i < SPECIAL.length ? SPECIAL[(i + seed) % SPECIAL.length] : wide * Math.tan(seed + i * 0.37),
  );
const bits = (values: Iterable<number>): number[] => [
  ...new Int32Array(Float32Array.from(values).buffer).map((word, i, all) =>
    Number.isNaN(new Float32Array(all.buffer)[i]) ? 0 : word
  ),
];

for (const [isa, alone] of ISAS.flatMap((isa) => [[isa, false], [isa, true]] as const)) {
  Deno.test(`${alone ? "gelu's gradient has" : "gelu and its gradient have"} libtorch's bits, ${isa}`, () => {
    const b = new Builder("exact");
    const x = b.tensor({ from: "input" }, [37, 64], "f32"), g = b.tensor({ from: "target" }, [37, 64], "f32");
    const y = alone ? x : b.call(GELU, [{ ref: x }, "tanh"], [37, 64]);
    const back = b.call(BACKWARD, [{ ref: g }, { ref: x }, "tanh"], [37, 64]);
    const graph = {
      nodes: b.nodes,
      output: alone ? back : y,
      loss: back,
      gradients: [],
      effects: [],
      exact: true,
    };
    const { parts, buffers } = fuse(graph, { exact: true, adds: false });
    assertEquals(parts.every(({ kernel }) => kernel === "group"), true);
    for (const [seed, wide] of [[1, 0.5], [2, 2], [3, 30]]) {
      const [xs, gs] = [numbers(seed, wide), numbers(seed + 5, 1)];
      const slots = buffers.map(({ ref }) => ref === x ? xs : ref === g ? gs : new Float32Array(COUNT));
      const made = runKernels(parts as Kernel[], isa, slots);
      const at = (home: string) => made[buffers.findIndex((one) => one.home.from === home)] as Float32Array;
      scope(() => {
        const [tx, tg] = [tensor([...xs]), tensor([...gs])];
        if (!alone) assertEquals(bits(at("output")), bits(toNumbers(aten(GELU)(tx, "tanh"))));
        assertEquals(bits(at("loss")), bits(toNumbers(aten(BACKWARD)(tg, tx, "tanh"))));
      });
    }
  });
}
