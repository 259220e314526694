// --compile=fast: the optimizer's update of all parameters is one loop of machine code, or one for each part of a bucket
// that this rank updates; on a GPU it is kernels of CUDA C.
import { formatWhole } from "../base/format.ts";
import { threads } from "../../ffi/context.ts";
import { loadCode, type MachineCode } from "../../ffi/machine_code.ts";
import { timing } from "../../ffi/profile.ts";
import { borrowBytes, fill_, zeros } from "../../ffi/make.ts";
import { select } from "../../ffi/ops.ts";
import { keep, type Tensor } from "../../ffi/tensor.ts";
import { openCuda } from "../compile/cuda/code.ts";
import type { GroupKernel } from "../compile/kernel.ts";
import {
  countKernel,
  COUNTS,
  type OnDevice,
  UPDATE_LOOPS,
  UPDATE_NUMBERS,
  type UpdateLoop,
  type WeightPiece,
} from "../compile/update.ts";
import { type Isa, machineIsa } from "../../ffi/machine.ts";
import { printCode } from "../compile/x86/print.ts";
import { compileOwn, type OwnLoop } from "./compiled_own_update.ts";
import type { Choice } from "./compiler.ts";
import { traitsOf } from "./optimizers.ts";
import type { Arena } from "./arena.ts";
import type {
  Clip,
  GroupPart,
  Optimizer,
  OptimizerSettings,
  ParameterGroups,
} from "./optimizers/optimizer.ts";

/** The update of fewer weights is over before another thread has begun, and a busy one would hold it up. */
const DIVIDED = 2 ** 17;

export const threadsFor = (weights: number): number => weights < DIVIDED ? 1 : threads();

/**
 * The same optimizer with another way of its step, while steps are compiled; itself where there is none. `refused` is told
 * why, where that is not known by the optimizer's name: at once, or of a later step.
 */
export function compiledUpdate(
  optimizer: Optimizer,
  settings: OptimizerSettings,
  arena: Arena,
  choice: Pick<Choice, "compiled"> = { compiled: true },
  refused: (why: string) => void = () => {},
): Optimizer {
  const isa = machineIsa(), onGpu = arena.flat.device !== "cpu";
  const parts = optimizer.groups?.parts ?? [{ optimizer, settings, arena, factor: 1 }];
  const { compiled } = traitsOf(settings);
  if (compiled === null || isa === null && !onGpu || arena.direct) return optimizer;
  if (compiled === "own") return onGpu ? optimizer : ownUpdates(optimizer, parts, isa!, choice, refused);
  const loop = UPDATE_LOOPS[compiled];
  if (parts.some(({ optimizer: { state } }) => state === undefined)) return optimizer;
  const { kernels, tensors, numbersSlot } = kernelsOf(parts, loop, onGpu);
  if (onGpu) return updateOnGpu(optimizer, parts.length, kernels, tensors, refused);
  const code = loadCode(printCode(kernels, isa!, numbersSlot + 1, threadsFor(arena.flat.numel)));
  if ("refused" in code) return optimizer;
  const numbers = keep(zeros([parts.length * UPDATE_NUMBERS]));
  [...tensors, numbers].forEach((tensor, slot) => code.setSlot(slot, tensor));
  const bytes = borrowBytes(numbers);
  const begins = parts.map((part, g) => {
    const own = UPDATE_NUMBERS * Float32Array.BYTES_PER_ELEMENT;
    const given = new Float32Array(bytes.buffer, bytes.byteOffset + g * own, UPDATE_NUMBERS);
    const begin = loop.begin(part.settings);
    return (rate: number) => begin(given, rate * part.factor, part.optimizer.advance!());
  });
  return withStep(optimizer, (rate) => {
    if (!choice.compiled) return optimizer.step(rate);
    if (optimizer.groups) optimizer.advance!();
    for (const begin of begins) begin(rate);
    runTimed(settings.type, code);
  });
}

export const withStep = (optimizer: Optimizer, step: Optimizer["step"]): Optimizer => ({
  ...optimizer,
  get steps() {
    return optimizer.steps;
  },
  set steps(taken) {
    optimizer.steps = taken;
  },
  step,
});

/** The user's own ops take no longer than recording them does where weights are fewer. */
const LEAST_OF_OWN = 16_384;

/** Each group has loops of its own, since its settings may lead to other ops. */
function ownUpdates(
  optimizer: Optimizer,
  parts: readonly GroupPart[],
  isa: Isa,
  choice: Pick<Choice, "compiled">,
  refused: (why: string) => void,
): Optimizer {
  const large = parts.filter(({ optimizer: { own }, arena: { parameters } }) =>
    own !== undefined && parameters.reduce((sum, { numel }) => sum + numel, 0) >= LEAST_OF_OWN
  );
  if (large.length === 0) {
    refused(`that takes no longer for less than ${formatWhole(LEAST_OF_OWN)} weights`);
    return optimizer;
  }
  let told = false;
  const once = (why: string) => {
    if (!told) refused(why);
    told = true;
  };
  for (const part of large) {
    const why = compileOwn(part.optimizer, (loop, count) => loadOwn(part, loop, count, isa), choice, once);
    if (why === null) continue;
    for (const { optimizer: { own } } of large) own!.instead = null;
    refused(why);
    return optimizer;
  }
  return withStep(optimizer, (...given) => optimizer.step(...given));
}

/** Null where the machine refuses executable memory. */
function loadOwn(
  part: GroupPart,
  loop: (piece: WeightPiece) => GroupKernel,
  count: number,
  isa: Isa,
): OwnLoop | null {
  const { kernels, tensors, numbersSlot } = kernelsOf([part], { kernel: (_, piece) => loop(piece) }, false);
  const code = loadCode(printCode(kernels, isa, numbersSlot + 1, threadsFor(part.arena.flat.numel)));
  if ("refused" in code) return null;
  const numbers = keep(zeros([Math.max(1, count)])), { buffer, byteOffset } = borrowBytes(numbers);
  [...tensors, numbers].forEach((tensor, slot) => code.setSlot(slot, tensor));
  return {
    numbers: new Float32Array(buffer, byteOffset, count),
    run: () => runTimed(part.settings.type, code),
  };
}

export function runTimed(name: string, code: Pick<MachineCode, "run">): void {
  const { observer } = timing, from = observer && performance.now();
  code.run();
  if (from !== null) observer!(name, from, performance.now());
}

/** One loop over the pieces of each part, and the tensors of its slots in order. */
function kernelsOf(
  parts: readonly GroupPart[],
  loop: Pick<UpdateLoop, "kernel">,
  onGpu: boolean,
): { kernels: GroupKernel[]; tensors: Tensor[]; numbersSlot: number } {
  const all = parts.map((part) => ({ part, pieces: piecesOf(part.arena), state: part.optimizer.state! }));
  const own = ({ pieces }: typeof all[0]) => pieces.flatMap(({ weights, gradient }) => [weights, gradient]);
  const tensors = all.flatMap((one) => [...own(one), ...one.state]), numbersSlot = tensors.length;
  let slot = 0;
  const kernels = all.flatMap(({ part: { settings, factor }, pieces, state }, group) => {
    const first = slot, states = state.map((_, k) => first + 2 * pieces.length + k);
    slot += 2 * pieces.length + state.length;
    return pieces.map(({ weights, offset }, i) =>
      loop.kernel(settings, {
        ...{ elements: weights.numel, weights: first + 2 * i, gradient: first + 2 * i + 1, offset, factor },
        ...{ state: states, numbers: numbersSlot, own: onGpu ? COUNTS + group : group * UPDATE_NUMBERS },
      }, onGpu ? onDeviceAt(numbersSlot) : null)
    );
  });
  return { kernels, tensors, numbersSlot };
}

/** Behind the slot of the step's numbers. */
const onDeviceAt = (numbers: number): OnDevice => ({ found: numbers + 1, norm: numbers + 2 });

/**
 * Rate and count lie on the device, so that a captured step can be replayed. The loop clips the gradient, and leaves a step
 * out whose gradient is not finite.
 */
function updateOnGpu(
  optimizer: Optimizer,
  groups: number,
  update: readonly GroupKernel[],
  tensors: readonly Tensor[],
  refused: (why: string) => void,
): Optimizer {
  const { device } = tensors[0], slot = tensors.length, places = onDeviceAt(slot);
  const kernels = [countKernel(slot, places, groups), ...update];
  // Memory of its own begins at 16 bytes; a part of a bucket may begin anywhere.
  const aligned = (other: number) => other < slot && tensors[other].offset % 4 === 0;
  const made = openCuda(kernels, slot + 3, aligned, device);
  if ("refused" in made) {
    refused(made.why);
    return optimizer;
  }
  const code = made.code(kernels),
    numbers = keep(zeros([COUNTS + groups], { device })),
    nothing = keep(zeros([], { device }));
  [...tensors, numbers].forEach((tensor, i) => code.setSlot(i, tensor));
  const [rate, longest, ...counts] = Array.from(
    { length: COUNTS + groups },
    (_, place) => keep(select(numbers, 0, place)),
  );
  const begin = () => optimizer.onDevice!.begin();
  const countAgain = () =>
    (optimizer.groups?.steps ?? [optimizer.steps]).forEach((taken, g) => fill_(counts[g], taken));
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
      countAgain();
    },
    ...(optimizer.groups && { groups: countedGroups(optimizer.groups, countAgain) }),
    clips: true,
    step(lr, found = null, clip = null) {
      begin();
      fill_(rate, lr);
      queue(found, clip);
    },
    onDevice: { ...optimizer.onDevice!, rate, begin, queue },
  };
}

/** Steps that are set are counted on the device, too. */
const countedGroups = (groups: ParameterGroups, countAgain: () => void): ParameterGroups => ({
  ...groups,
  get steps() {
    return groups.steps;
  },
  set steps(steps) {
    groups.steps = steps;
    countAgain();
  },
});

/** The whole arena or a group of it, or this rank's parts of buckets, whose state lies together. */
function piecesOf({ parameters, flat, gradient, memory, starts }: Arena) {
  if (memory.length === 1 && memory[0] === gradient) return [{ weights: flat, gradient, offset: 0 }];
  return memory.map((gradient, i) => ({ weights: parameters[i], gradient, offset: starts[i] }));
}
