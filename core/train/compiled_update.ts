// --compile=fast: the optimizer's update of all parameters is one loop of machine code, or one for each part of a bucket
// that this rank updates; on a GPU it is kernels of CUDA C.
import { threads } from "../../ffi/context.ts";
import { loadCode } from "../../ffi/machine_code.ts";
import { timing } from "../../ffi/profile.ts";
import { borrowBytes, fill_, zeros } from "../../ffi/make.ts";
import { select } from "../../ffi/ops.ts";
import { keep, type Tensor } from "../../ffi/tensor.ts";
import { openCuda } from "../compile/cuda/code.ts";
import type { GroupKernel } from "../compile/kernel.ts";
import {
  COUNT,
  countKernel,
  LEARNING_RATE,
  LONGEST,
  type OnDevice,
  UPDATE_LOOPS,
  UPDATE_NUMBERS,
} from "../compile/update.ts";
import { machineIsa } from "../../ffi/machine.ts";
import { printCode } from "../compile/x86/print.ts";
import type { Choice } from "./compiler.ts";
import { traitsOf } from "./optimizers.ts";
import type { Arena } from "./arena.ts";
import type { Clip, Optimizer, OptimizerSettings } from "./optimizers/optimizer.ts";

/**
 * The same optimizer with another way of its step, while steps are compiled; itself where there is none. `refused` is told
 * why a GPU has no kernels for it.
 */
export function compiledUpdate(
  optimizer: Optimizer,
  settings: OptimizerSettings,
  arena: Arena,
  choice: Pick<Choice, "compiled"> = { compiled: true },
  refused: (why: string) => void = () => {},
): Optimizer {
  const isa = machineIsa(), { state } = optimizer, onGpu = arena.flat.device !== "cpu";
  const { compiled } = traitsOf(settings), loop = compiled && UPDATE_LOOPS[compiled];
  if (loop === null || isa === null && !onGpu || state === undefined || arena.direct) return optimizer;
  const pieces = piecesOf(arena), tensors = pieces.flatMap(({ weights, gradient }) => [weights, gradient]);
  const numbersSlot = tensors.length + state.length;
  const kernels = pieces.map(({ weights, offset }, i) =>
    loop.kernel(settings, {
      elements: weights.numel,
      weights: 2 * i,
      gradient: 2 * i + 1,
      state: state.map((_, k) => tensors.length + k),
      offset,
      numbers: numbersSlot,
    }, onGpu ? onDeviceAt(numbersSlot) : null)
  );
  if (onGpu) return updateOnGpu(optimizer, kernels, [...tensors, ...state], refused);
  const code = loadCode(printCode(kernels, isa!, numbersSlot + 1, threads()));
  if ("refused" in code) return optimizer;
  const numbers = keep(zeros([UPDATE_NUMBERS]));
  [...tensors, ...state, numbers].forEach((tensor, slot) => code.setSlot(slot, tensor));
  const bytes = borrowBytes(numbers);
  const given = new Float32Array(bytes.buffer, bytes.byteOffset, UPDATE_NUMBERS);
  const begin = loop.begin(settings);
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
      const { observer } = timing, from = observer && performance.now();
      code.run();
      if (from !== null) observer!(settings.type, from, performance.now());
    },
  };
}

/** Behind the slot of the step's numbers. */
const onDeviceAt = (numbers: number): OnDevice => ({ found: numbers + 1, norm: numbers + 2 });

/**
 * Rate and count lie on the device, so that a captured step can be replayed. The loop clips the gradient, and leaves a step
 * out whose gradient is not finite.
 */
function updateOnGpu(
  optimizer: Optimizer,
  update: readonly GroupKernel[],
  tensors: readonly Tensor[],
  refused: (why: string) => void,
): Optimizer {
  const { device } = tensors[0], slot = tensors.length, places = onDeviceAt(slot);
  const kernels = [countKernel(slot, places), ...update];
  // Memory of its own begins at 16 bytes; a part of a bucket may begin anywhere.
  const aligned = (other: number) => other < slot && tensors[other].offset % 4 === 0;
  const made = openCuda(kernels, slot + 3, aligned, device);
  if ("refused" in made) {
    refused(made.why);
    return optimizer;
  }
  const code = made.code(kernels),
    numbers = keep(zeros([3], { device })),
    nothing = keep(zeros([], { device }));
  [...tensors, numbers].forEach((tensor, i) => code.setSlot(i, tensor));
  const [rate, count, longest] = [LEARNING_RATE, COUNT, LONGEST].map((place) =>
    keep(select(numbers, 0, place))
  );
  const begin = () => void optimizer.advance!();
  let limit = 1;
  fill_(longest, limit);
  const queue = (found: Tensor | null, clip: Clip | null = null) => {
    if (clip !== null && clip.limit !== limit) fill_(longest, limit = clip.limit);
    code.setSlot(places.found, found ?? nothing);
    code.setSlot(places.norm, clip?.norm ?? nothing);
    code.run();
  };
  return {
    ...optimizer,
    get steps() {
      return optimizer.steps;
    },
    set steps(taken) {
      optimizer.steps = taken;
      fill_(count, taken);
    },
    clips: true,
    step(lr, found = null, clip = null) {
      begin();
      fill_(rate, lr);
      queue(found, clip);
    },
    onDevice: { ...optimizer.onDevice!, rate, begin, queue },
  };
}

/** The whole arena, or this rank's parts of buckets, whose state lies together. */
function piecesOf({ parameters, flat, gradient, memory, starts }: Arena) {
  if (memory.length === 1 && memory[0] === gradient) return [{ weights: flat, gradient, offset: 0 }];
  return memory.map((gradient, i) => ({ weights: parameters[i], gradient, offset: starts[i] }));
}
