// --batch-size auto: how many samples a rank takes at once is measured, and a step keeps its samples by accumulation. The
// checkpoint remembers what was chosen, and a run that goes on takes no other.
import { clone, copy_ } from "../../../ffi/ops.ts";
import { longLivedZeros } from "../../../ffi/make.ts";
import { NativeError } from "../../../ffi/errors.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { LonelyBatch } from "../../models/nn/lonely_batch.ts";
import { formatPlural, formatRate } from "../../base/format.ts";
import type { Config } from "../../settings/settings.ts";
import { planBatches } from "../batches.ts";
import type { Built } from "../build.ts";
import { mostAtOnce, stateBytes } from "../memory.ts";
import type { Optimizer } from "../optimizers/optimizer.ts";
import type { Launch } from "../launch.ts";
import { stepTimer } from "./timing.ts";

/** Samples at once, and seconds of a step of one micro-batch on the slowest rank; null where some rank lacks the memory. */
interface Timed {
  readonly size: number;
  readonly seconds: number | null;
}

/** Why no other size was tried, or was taken. */
type Reason = "norms" | "deterministic" | "fastest";

export interface BatchFit {
  readonly size: number;
  readonly reason: Reason;
  readonly timed: readonly Timed[];
}

/** A smaller size has to be faster by so much. */
const GAIN = 1.1;

/** A rank's samples of a step, and half of them as often as there is one: micro-batches of a step are alike. */
export function sizesUpTo(share: number): number[] {
  const sizes = [share];
  while (sizes[sizes.length - 1] > 1) sizes.push(Math.ceil(sizes[sizes.length - 1] / 2));
  return sizes;
}

/** The first size that fits, or a smaller one while that is faster. Null where none fits. */
export function chooseSize(
  sizes: readonly number[],
  only: Exclude<Reason, "fastest"> | null,
  time: (size: number) => number | null,
): BatchFit | null {
  const timed: Timed[] = [];
  let best: { size: number; rate: number } | null = null;
  for (const size of sizes) {
    const seconds = time(size);
    timed.push({ size, seconds });
    if (seconds === null) continue;
    const rate = size / seconds;
    if (best !== null && rate < GAIN * best.rate) break;
    best = { size, rate };
    if (only !== null) break;
  }
  return best && { size: best.size, reason: only ?? "fastest", timed };
}

/** The settings with the batch that is chosen, or that the checkpoint remembers, where `batch_size` is auto. */
export function fitBatch(
  launch: Launch,
  built: Built,
  localRanks: number,
): { config: Config; notes: string[] } {
  const { config, resume, team } = launch, { training } = config, world = team?.world ?? 1;
  if (!training.fit_batch) return { config, notes: [] };
  const samples = built.data.train.length;
  const { global } = planBatches(training, samples, world);
  const fitted = (size: number, note: string) => {
    const fixed = {
      batch_size: size,
      global_batch_size: global,
      eval_batch_size: training.eval_batch_size || training.batch_size,
    };
    return { config: { ...config, training: { ...training, ...fixed } }, notes: [note] };
  };
  const saved = (resume?.saved as Partial<Config> | null | undefined)?.training;
  if (saved?.fit_batch && saved.batch_size === training.batch_size) {
    const many = formatPlural(training.batch_size, "sample");
    return fitted(
      training.batch_size,
      `A rank takes ${many} at once, as this run did before (--batch-size auto)`,
    );
  }
  const share = Math.ceil(global / world);
  const norms = built.model.root.namedBuffers().some(([name]) => name.endsWith("running_mean"));
  const sizes = sizesUpTo(norms ? Math.min(share, training.batch_size) : share);
  const fit = chooseSize(
    sizes,
    norms ? "norms" : training.deterministic !== "off" ? "deterministic" : null,
    timeOnRanks(launch, built, { share, largest: sizes[0], localRanks, world }),
  );
  if (fit === null) {
    throw new UserError(
      "memory",
      "Not even the smallest batch fits into memory: try --amp bf16, --gradient-checkpointing or a smaller model.",
    );
  }
  return fitted(fit.size, noteOf(fit, Math.min(share, training.batch_size)));
}

/** On a GPU what a captured step and its library hold comes on top: more samples have to fit than are taken. */
const MARGIN = 1 / 8;

/** All ranks time at once, as they train, and get the same answer. */
function timeOnRanks(
  { config, device, team = null }: Launch,
  built: Built,
  { share, largest, localRanks, world }: {
    readonly share: number;
    readonly largest: number;
    readonly localRanks: number;
    readonly world: number;
  },
): (size: number) => number | null {
  const { train } = built.data;
  const wide = { ...config, training: { ...config.training, batch_size: share } };
  const most = device === "cpu" ? mostAtOnce(wide, built, localRanks, world) ?? Infinity : Infinity;
  const own = (size: number): number | null => {
    if (size > most && size > 1) return null;
    const tried = device === "cpu" ? size : Math.min(train.length, size + Math.ceil(MARGIN * size));
    const timed = leavingNoTrace(config, built, world, () => {
      const time = stepTimer(config, built, device, NO_UPDATE);
      if (size === 1 && tried > 1) time(size); // a batch norm may take those that are tried, and not this one
      return time(tried);
    }, size < largest);
    return timed && timed.seconds * size / tried;
  };
  return (size) => {
    const seconds = own(size), all = team ? team.gather(seconds, "a batch's time") : [seconds];
    return all.reduce((most, one) => most === null || one === null ? null : Math.max(most, one));
  };
}

/** Weights stay as they are. */
const NO_UPDATE = {
  scaler: null,
  optimizer: { type: "none", steps: 0, slots: new Map(), options: {}, step() {} } satisfies Optimizer,
};

/**
 * The memory of the run's optimizer is held meanwhile, and what batch norms have seen is forgotten. Null where memory
 * ends, and where a batch norm needs more samples and `more` would do.
 */
function leavingNoTrace<T>(
  config: Config,
  built: Built,
  world: number,
  run: () => T,
  more: boolean,
): T | null {
  const { model, arena } = built, buffers = model.root.namedBuffers().map(([, t]) => t);
  const held: Tensor[] = [];
  const hold = (make: () => Tensor) => {
    const t = scope(() => keep(make()));
    held.push(t);
    return t;
  };
  try {
    const before = buffers.map((t) => hold(() => clone(t)));
    const { state } = stateBytes(config, built, world), { device } = arena.flat;
    hold(() => longLivedZeros([Math.ceil(state / 4)], { device }));
    const made = run();
    noGrad(() => buffers.forEach((t, i) => copy_(t, before[i])));
    return made;
  } catch (error) {
    if (error instanceof NativeError && error.outOfMemory) return null; // what is held did not fit
    if (error instanceof LonelyBatch && more) return null;
    throw error;
  } finally {
    held.forEach((t) => t.free());
  }
}

const WHY: Readonly<Record<Reason, string>> = {
  norms: "batch norms see them together, so there are no more than without it",
  deterministic: "the most that fit, whatever their speed (--deterministic)",
  fastest: "the fastest that fits",
};

/** `usual` would have been taken without measuring. */
function noteOf({ size, reason, timed }: BatchFit, usual: number): string {
  const each = timed.map(({ size, seconds }) =>
    seconds === null ? `${size} do not fit` : `${size} make ${formatRate(size / seconds)} samples/s`
  );
  const fewer = reason === "norms" && size < usual
    ? `; only ${size} of ${usual} fit, which batch norms notice`
    : "";
  return `A rank takes ${formatPlural(size, "sample")} at once (--batch-size auto): ${WHY[reason]}${fewer} (${
    each.join(", ")
  })`;
}
