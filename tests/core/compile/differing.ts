// A pass as a plan beside autograd: what of it differs, in bits or by how much. Test helper.
import { manualSeed } from "../../../ffi/context.ts";
import { backward, gradOf, noGrad, requireGrad } from "../../../ffi/autograd.ts";
import { toNumbers, uninitialised, zeros } from "../../../ffi/make.ts";
import { copy_, detach, narrow, randn, reshape } from "../../../ffi/ops.ts";
import { record } from "../../../ffi/trace.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { numelOf } from "../../../core/compile/builder.ts";
import { derive } from "../../../core/compile/derive.ts";
import { lower } from "../../../core/compile/lower/lower.ts";
import { makePlan } from "../../../core/compile/plan.ts";
import { sentenceOf } from "../../../core/compile/refused.ts";
import { difference } from "./compiled.ts";

/** A gradient begins with a cache line. */
const ALIGN = 16;

const sameBits = (ours: Tensor, theirs: Tensor): boolean => {
  const a = toNumbers(ours), b = toNumbers(theirs);
  return a.every((one, i) => one === b[i] || Number.isNaN(one) && Number.isNaN(b[i]));
};

interface Pass {
  readonly takes: readonly (readonly number[])[];
  /** Gives the output and the loss; the target has the output's shape. */
  readonly pass: (parameters: Tensor[], target: Tensor) => { output: Tensor; loss: Tensor };
  readonly exact: boolean;
  readonly threads: number;
  /** By so much of the largest one numbers may differ; of none, not by a bit. */
  readonly bound?: number;
}

/** Numbers that are all smaller than this are compared by it: they may be what is left of larger ones. */
const FLOOR = 1e-2;

/** What differs: "output", or a parameter's number; or why there is no plan. */
export function differing({ takes, pass, exact, threads, bound = 0 }: Pass): string {
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
  const { shape } = noGrad(() => pass(parameters, randn([1])).output);
  const target = randn(shape), input = randn([1]);
  const { result: { output, loss }, recording } = record(() => {
    const made = pass(parameters, target);
    backward(made.loss);
    return made;
  });
  const lowered = lower(recording, { input, target, parameters, output, loss }, { exact });
  if ("reason" in lowered) return sentenceOf(lowered);
  const graph = derive(lowered.graph, parameters.length, { weighted: false });
  const made = uninitialised(output.shape), losses = zeros([ALIGN]);
  const memory = { flat, gradient, starts, held: lowered.held, output: made, losses };
  const plan = makePlan(graph, memory, { exact, adds: false, isa: machineIsa()!, threads });
  if ("lacks" in plan) return plan.name;
  const differs = (ours: Tensor, theirs: Tensor) =>
    bound === 0 ? !sameBits(ours, theirs) : !(difference(ours, theirs, FLOOR) <= bound);
  for (let run = 0; run < 2; run++) plan.run(input, target, null, 0); // results of calls have places from the second run on
  const wrong = parameters.flatMap((p, i) => {
    const theirs = graph.gradients[i] === null ? null : gradOf(p);
    return theirs !== null && differs(partOf(gradient, i), theirs) ? [`gradient ${i}`] : [];
  });
  if (differs(made, detach(output))) wrong.unshift("output");
  plan.free();
  lowered.free();
  return wrong.join(", ");
}
