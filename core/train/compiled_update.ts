// --compile=fast: the optimizer's update of all parameters is one loop of machine code, or one for each part of a bucket
// that this rank updates.
import { threads } from "../../ffi/context.ts";
import { loadCode } from "../../ffi/machine_code.ts";
import { timing } from "../../ffi/profile.ts";
import { borrowBytes, zeros } from "../../ffi/make.ts";
import { keep } from "../../ffi/tensor.ts";
import type { GroupKernel } from "../compile/kernel.ts";
import { adamKernel, NUMBERS, type Piece, RATE, ROOT, sgdKernel, SHRINK } from "../compile/update.ts";
import { machineIsa } from "../compile/x86/isa.ts";
import { printCode } from "../compile/x86/print.ts";
import type { Choice } from "./compiled_choice.ts";
import type { Arena } from "./gradients/arena.ts";
import type { Optimizer, OptimizerSettings } from "./optimizers.ts";

/** The same optimizer with another way of its step, while steps are compiled; itself where there is none. */
export function compiledUpdate(
  optimizer: Optimizer,
  settings: OptimizerSettings,
  arena: Arena,
  choice: Pick<Choice, "compiled"> = { compiled: true },
): Optimizer {
  const isa = machineIsa(), { state } = optimizer;
  if (isa === null || state === undefined || arena.direct) return optimizer;
  const pieces = piecesOf(arena), tensors = pieces.flatMap(({ weights, gradient }) => [weights, gradient]);
  const numbersSlot = tensors.length + state.length;
  const kernels = pieces.map(({ weights, offset }, i) =>
    kernelOf(settings, {
      elements: weights.numel,
      weights: 2 * i,
      gradient: 2 * i + 1,
      state: state.map((_, k) => tensors.length + k),
      offset,
      numbers: numbersSlot,
    })
  );
  if (kernels.includes(null)) return optimizer;
  const code = loadCode(printCode(kernels.filter((one) => one !== null), isa, numbersSlot + 1, threads()));
  if ("refused" in code) return optimizer;
  const numbers = keep(zeros([NUMBERS]));
  [...tensors, ...state, numbers].forEach((tensor, slot) => code.setSlot(slot, tensor));
  const bytes = borrowBytes(numbers);
  const given = new Float32Array(bytes.buffer, bytes.byteOffset, NUMBERS);
  const begin = settings.type === "sgd" ? beginSgd : beginAdam(settings);
  return {
    ...optimizer,
    get steps() {
      return optimizer.steps;
    },
    set steps(taken) {
      optimizer.steps = taken;
    },
    step(rate) {
      if (!choice.compiled) return optimizer.step(rate);
      begin(given, rate, optimizer.advance!());
      const { hear } = timing, from = hear && performance.now();
      code.run();
      if (from !== null) hear!(settings.type, from, performance.now());
    },
  };
}

/** The whole arena, or this rank's parts of buckets, whose state lies together. */
function piecesOf({ parameters, flat, gradient, memory, starts }: Arena) {
  if (memory.length === 1 && memory[0] === gradient) return [{ weights: flat, gradient, offset: 0 }];
  return memory.map((gradient, i) => ({ weights: parameters[i], gradient, offset: starts[i] }));
}

function kernelOf(s: OptimizerSettings, piece: Piece): GroupKernel | null {
  const { momentum, nesterov, weight_decay: decay, beta1, beta2, eps } = s;
  if (s.type === "sgd") return sgdKernel(piece, { momentum, nesterov, decay });
  if (s.type !== "adamw" && s.type !== "adam") return null;
  return adamKernel(piece, { beta1, beta2, eps, decay, decoupled: s.type === "adamw" });
}

type Begin = (given: Float32Array, rate: number, step: number) => void;

const beginSgd: Begin = (given, rate) => {
  given[RATE] = -rate;
};

const beginAdam = ({ beta1, beta2, weight_decay }: OptimizerSettings): Begin => (given, rate, step) => {
  given[RATE] = -rate / (1 - beta1 ** step);
  given[SHRINK] = 1 - rate * weight_decay;
  given[ROOT] = 1 / Math.sqrt(1 - beta2 ** step);
};
