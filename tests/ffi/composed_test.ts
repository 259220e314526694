import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { op } from "../../core/models/user/op.ts";
import { backward, gradSlotOf, requireGrad, takeGrad } from "../../ffi/autograd.ts";
import { COMPOSED, composed } from "../../ffi/composed.ts";
import { operator } from "../../ffi/operators.ts";
import { numberOf } from "../../ffi/scalar.ts";
import { add, tensor, toNumbers } from "../../ffi/make.ts";
import { mul, randn, sum } from "../../ffi/ops.ts";
import { manualSeed } from "../../ffi/context.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();

/** By name: shapes of its tensors, then its numbers. */
const CASES: Readonly<
  Record<string, readonly [shapes: readonly (readonly number[])[], ...numbers: number[]]>
> = {
  "pow.Tensor_Scalar": [[[40]], 3],
  leaky_relu: [[[40]], 0.2],
  elu: [[[40]], 1.5, 0.7, 2],
  celu: [[[40]], 1.3],
  softplus: [[[40]], 2, 1],
  hardtanh: [[[40]], -0.4, 0.6],
  threshold: [[[40]], 0.1, -3],
  hardshrink: [[[40]], 0.4],
  softshrink: [[[40]], 0.4],
  addcmul: [[[40], [40], [40]], 0.3],
  addcdiv: [[[40], [40], [40]], 0.3],
  addmm: [[[5, 7], [5, 3], [3, 7]], 0.5, 2],
  baddbmm: [[[2, 5, 7], [2, 5, 3], [2, 3, 7]], 0.5, 2],
  addmv: [[[5], [5, 3], [3]], 0.5, 2],
};

/** What it gives, and its gradients. */
function worth(
  call: (...tensors: Tensor[]) => Tensor,
  inputs: readonly number[][],
  shapes: readonly (readonly number[])[],
) {
  const leaves = inputs.map((values, i) => requireGrad(tensor(Float32Array.from(values), shapes[i])));
  const found = scope(() => {
    const y = call(...leaves);
    backward(sum(mul(y, add(y, y))));
    return [[...toNumbers(y)], ...leaves.map((leaf) => [...toNumbers(takeGrad(gradSlotOf(leaf)))])];
  });
  leaves.forEach((leaf) => leaf.free());
  return found;
}

Deno.test("what is composed of ops with tensors has the values and gradients of libtorch's op with numbers", {
  sanitizeResources: false, // the registry of operations stays open
}, () => {
  assertEquals(Object.keys(composed).sort(), Object.keys(CASES).sort());
  manualSeed(0n);
  for (const [name, [shapes, ...numbers]] of Object.entries(CASES)) {
    const inputs = shapes.map((shape) => scope(() => [...toNumbers(randn(shape))]));
    const own = worth((...tensors) => op(name)(...tensors, ...numbers), inputs, shapes);
    const ours = worth(
      (...tensors) => composed[name](...tensors, ...numbers.map(numberOf)) as Tensor,
      inputs,
      shapes,
    );
    own.flat().forEach((value, i) =>
      assertAlmostEquals(ours.flat()[i], value, 2e-5 * Math.max(1, Math.abs(value)), name)
    );
  }
});

Deno.test("the loss of margins is composed for a machine that can't call it, in each reduction", {
  sanitizeResources: false, // memory for code stays open
}, () => {
  manualSeed(0n);
  const inputs = [scope(() => [...toNumbers(randn([5, 4]))])],
    target = tensor(BigInt64Array.of(3n, 0n, 1n, 1n, 2n));
  const weight = tensor([0.5, 2, 1, 3]);
  for (const reduction of [0, 1, 2]) {
    for (const [p, margin, each] of [[1, 1, null], [2, 0.7, weight]] as const) {
      const given = (x: Tensor) => [x, target, numberOf(p), numberOf(margin), each, reduction];
      const [own, ours] = [operator("aten::multi_margin_loss", "")!.call!, COMPOSED.multi_margin_loss].map((
        call,
      ) => worth((x) => call(...given(x)) as Tensor, inputs, [[5, 4]]).flat());
      own.forEach((value, i) => assertAlmostEquals(ours[i], value, 2e-6 * Math.max(1, Math.abs(value))));
    }
  }
});

Deno.test("far from 0 nothing becomes infinite, and no gradient NaN", () => {
  for (const name of ["elu", "celu", "softplus"]) {
    const [values, gradients] = worth((x) => composed[name](x) as Tensor, [[-200, 200]], [[2]]);
    assert([...values, ...gradients].every(Number.isFinite), `${name}: ${values} ${gradients}`);
  }
});
