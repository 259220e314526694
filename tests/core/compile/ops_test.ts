// Each rule of lowering and of gradients against libtorch's own op and its autograd.
import { assertEquals } from "@std/assert";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { abs, mul, rand, randn, sum } from "../../../ffi/ops.ts";
import { add, constant, scale } from "../../../ffi/make.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { scope } from "../../../ffi/tensor.ts";
import { sentenceOf } from "../../../core/compile/refused.ts";
import { op } from "../../../core/models/user/op.ts";
import { useLibtorch } from "../../libtorch.ts";
import { compared } from "./compiled.ts";
import { makeHeld, OP_CASES } from "./op_cases.ts";

useLibtorch();
setThreads(1);
makeHeld();
for (const name of ["leaky_relu", "leaky_relu_"]) scope(() => op(name)(randn([2]))); // opens the libraries

const BOUND = 1e-5;

for (const exact of [false, true]) {
  Deno.test(`each op as a graph has libtorch's values and gradients${exact ? ", exact" : ""}`, () => {
    const wrong: string[] = [];
    for (const { name, takes, call } of OP_CASES) {
      scope(() => {
        manualSeed(5n);
        const parameters = takes.map((made) => {
          if (!("kind" in made)) return randn(made);
          const even = noGrad(() => add(scale(rand(made.shape), 0.9), constant(0.05)));
          return made.kind === "01" ? even : noGrad(() => add(abs(randn(made.shape)), even));
        });
        const shape = scope(() => noGrad(() => call(...parameters).shape));
        const target = randn(shape), input = randn([1]);
        const made = compared({
          input,
          target,
          parameters,
          exact,
          pass() {
            const output = call(...parameters);
            return { output, loss: sum(mul(output, target)) };
          },
        });
        if ("reason" in made) wrong.push(`${name}: ${sentenceOf(made)}`);
        else if (!(made.worst < BOUND)) wrong.push(`${name}: ${made.worst}`);
      });
    }
    assertEquals(wrong, []);
  });
}
