// Exact plans against autograd, to the last bit.
import { assertEquals } from "@std/assert";
import { setThreads } from "../../../ffi/context.ts";
import { mul, randn, sum } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import { op } from "../../../core/models/user/op.ts";
import { useLibtorch } from "../../libtorch.ts";
import { BITS_CASES } from "./bits_cases.ts";
import { differing } from "./differing.ts";

useLibtorch();
for (const name of ["leaky_relu", "leaky_relu_"]) scope(() => op(name)(randn([2]))); // opens the libraries

for (const threads of [1, 2]) {
  Deno.test({
    name: `exact plans have the bits of libtorch's kernels on ${threads} of its threads`,
    sanitizeResources: false, // libraries that plans open stay open
    fn() {
      setThreads(threads);
      const wrong = BITS_CASES.flatMap(([name, takes, call]) => {
        const found = scope(() =>
          differing({
            ...{ takes, exact: true, threads },
            pass: (parameters, target) => {
              const output = call(...parameters);
              return { output, loss: sum(mul(output, target)) };
            },
          })
        );
        return found === "" ? [] : [`${name}: ${found}`];
      });
      setThreads(1);
      assertEquals(wrong, []);
    },
  });
}
