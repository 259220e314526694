// Exact plans against autograd, to the last bit.
import { assertEquals } from "@std/assert";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { backward, gradOf, noGrad, requireGrad } from "../../../ffi/autograd.ts";
import { toNumbers, uninitialised, zeros } from "../../../ffi/make.ts";
import { copy_, detach, mul, narrow, randn, reshape, sum } from "../../../ffi/ops.ts";
import { record } from "../../../ffi/trace.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { numelOf } from "../../../core/compile/builder.ts";
import { derive } from "../../../core/compile/derive.ts";
import { lower } from "../../../core/compile/lower/lower.ts";
import { makePlan } from "../../../core/compile/plan.ts";
import { sentenceOf } from "../../../core/compile/refused.ts";
import { op } from "../../../core/models/user/op.ts";
import { useLibtorch } from "../../libtorch.ts";
import { BITS_CASES } from "./bits_cases.ts";

useLibtorch();
for (const name of ["leaky_relu", "leaky_relu_"]) scope(() => op(name)(randn([2]))); // opens the libraries

/** A gradient begins with a cache line. */
const ALIGN = 16;

const differs = (ours: Tensor, theirs: Tensor): boolean => {
  const [a, b] = [toNumbers(ours), toNumbers(theirs)];
  return a.some((one, i) => one !== b[i]);
};

/** What has other bits: "output", or a parameter's number. */
function differing(
  takes: readonly (readonly number[])[],
  call: (...args: Tensor[]) => Tensor,
  threads: number,
): string {
  manualSeed(7n);
  const sizes = takes.map(numelOf), starts: number[] = [];
  const all = sizes.reduce((at, size) => (starts.push(at), at + Math.ceil(size / ALIGN) * ALIGN), 0);
  const flat = zeros([all]), gradient = zeros([all]);
  const partOf = (t: Tensor, i: number) => reshape(narrow(t, 0, starts[i], sizes[i]), takes[i]);
  const parameters = takes.map((shape, i) => {
    const own = noGrad(() => copy_(partOf(flat, i), randn(shape)));
    requireGrad(own);
    return own;
  });
  const target = randn(scope(() => noGrad(() => call(...parameters).shape))), input = randn([1]);
  const { result: { output, loss }, recording } = record(() => {
    const output = call(...parameters), loss = sum(mul(output, target));
    backward(loss);
    return { output, loss };
  });
  const lowered = lower(recording, { input, target, parameters, output, loss }, { exact: true });
  if ("reason" in lowered) return sentenceOf(lowered);
  const graph = derive(lowered.graph, parameters.length, { weighted: false });
  const made = uninitialised(output.shape), losses = zeros([ALIGN]);
  const memory = { flat, gradient, starts, held: lowered.held, output: made, losses };
  const plan = makePlan(graph, memory, { exact: true, adds: false, isa: machineIsa()!, threads });
  if ("lacks" in plan) return plan.name;
  for (let run = 0; run < 2; run++) plan.run(input, target, null, 0); // results of calls have places from the second run on
  const wrong = parameters.flatMap((p, i) =>
    graph.gradients[i] !== null && differs(partOf(gradient, i), gradOf(p)!) ? [`gradient ${i}`] : []
  );
  if (differs(made, detach(output))) wrong.unshift("output");
  plan.free();
  lowered.free();
  return wrong.join(", ");
}

for (const threads of [1, 2]) {
  Deno.test({
    name: `exact plans have the bits of libtorch's kernels on ${threads} of its threads`,
    sanitizeResources: false, // libraries that plans open stay open
    fn() {
      setThreads(threads);
      const wrong = BITS_CASES.flatMap(([name, takes, call]) => {
        const found = scope(() => differing(takes, call, threads));
        return found === "" ? [] : [`${name}: ${found}`];
      });
      setThreads(1);
      assertEquals(wrong, []);
    },
  });
}
