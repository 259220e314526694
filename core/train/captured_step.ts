// --compile on a GPU: the whole step (forward, backward, unscale, clip, update) is captured as a CUDA graph, which one
// call replays. It reads the rows where the feed copies them to, and copies rate and numbers from and to the host itself.
import type { DType } from "../../ffi/dtype.ts";
import { captureGraph, type CudaGraph, hasCudaGraphs } from "../../ffi/cuda_graph.ts";
import {
  cudaMemory,
  currentStream,
  type EventHandle,
  hasPassed,
  newEvent,
  type StreamMark,
  streamMark,
  synchroniseCuda,
} from "../../ffi/cuda.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { copy_, detach, emptyLike, foreachCopy_, narrow } from "../../ffi/ops.ts";
import { fill_, scalar, uninitialised } from "../../ffi/make.ts";
import { readbackBehind } from "../../ffi/readback.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { messageOf } from "../base/errors.ts";
import { formatBytes } from "../base/format.ts";
import type { Team } from "../ranks/team.ts";
import type { Outcome } from "./blocks.ts";
import { takeGradients } from "./arena.ts";
import type { StepWatch } from "./gradients/strategy.ts";
import { addGraphMemory } from "./memory.ts";
import { unwatched } from "./moments.ts";
import {
  fillNext,
  type GraphMetricBuffer,
  graphMetricBuffer,
  type RunningMetrics,
} from "./running_metrics.ts";
import { FOLLOWS, TURNS } from "./compiled_choice.ts";
import { thawing } from "./trained_parameters.ts";
import { stepNumbers, type StepParts, type StepTaken, type TakeStep, takeStep } from "./step.ts";
import { type MicroBatch, sameShape, type Shape, shapeOf, type Share } from "./micro_batch.ts";
import type { Course } from "./schedules/course.ts";
import type { Run } from "./launch.ts";

/** A step's parts, and what decides and tells whether steps are captured. */
export interface CapturedParts
  extends StepParts, Pick<Run, "config" | "console" | "warn" | "cursor" | "plan" | "data"> {
  readonly ranks: { readonly team: Team } | null;
  readonly profile: object | null;
  readonly thaw: unknown;
  readonly schedule: Pick<Course, "moves">;
}

/** The epoch's metrics, beside what a step is watched by. */
interface Watch extends StepWatch {
  /** Null where nobody wants them. */
  readonly metrics: Measuring | null;
}

interface Measuring {
  readonly running: RunningMetrics;
  /** The items of a batch; that there are none is told. */
  itemsOf(batch: MicroBatch): number;
}

/** So many steps of a kind run as they are: libraries choose kernels and take memory in their first ones. */
const WARM_UP = 3;
const MOST_GRAPHS = 4;

/** The feed has two memories for its rows, and a graph reads one of them. */
const OF_A_KIND = 2;

/** Steps of one kind have batches of the same shapes, and want the norm or don't. */
interface Kind {
  /** A batch of it, without its tensors. */
  readonly like: readonly Like[];
  readonly wantNorm: boolean;
  /** A rollout goes so far; 0 without one. */
  readonly rollout: number;
  /** Each micro-batch's, for metrics; null where they are measured at once. */
  metricBuffers: readonly (GraphMetricBuffer | null)[];
  seen: number;
  /** They take turns. */
  readonly captured: CapturedStep[];
  turn: number;
}

type Like = { readonly [K in "input" | "target"]: Shape } & { readonly raw: boolean };

/** A graph finds a step's batches here. */
interface Inputs {
  readonly batches: readonly MicroBatch[];
  /** Tensors of the graph's own by type, and where each is among all; none where it reads what the feed copies. */
  readonly groups: readonly { readonly tensors: readonly Tensor[]; readonly places: readonly number[] }[];
}

/** Page-locked memory, where a graph finds the rate at its begin and leaves the step's numbers at its end. */
interface PinnedBuffers {
  readonly rate: Tensor;
  readonly numbers: Tensor;
  /** Behind each replay. */
  readonly done: EventHandle;
}

interface CapturedStep {
  readonly graph: CudaGraph;
  readonly inputs: Inputs;
  readonly pinned: PinnedBuffers;
  /** Behind the last replay; null before the first. */
  replayed: StreamMark | null;
  /** Null where the share is 1, of a step's only micro-batch. */
  readonly shares: readonly Tensor[] | null;
  /** Those that no buffer has, with their targets. */
  readonly outcomes: readonly (Outcome & Pick<MicroBatch, "target"> | null)[];
  readonly taken: StepTaken;
  /** The part of the pinned memory that it fills. */
  readonly numbers: Tensor;
  /** `shares` holds these. */
  known: readonly Share[];
}

/** Takes each step as it is, or as a graph where steps of its kind can be captured. */
export function openTakeStep(trainer: CapturedParts, watch: Watch): TakeStep {
  const plain: TakeStep = (request) => takeStep(trainer, watch, request);
  if (trainer.config.training.compile === "off" || !trainer.pass.onGpu) return plain;
  const reason = whyNot(trainer);
  if (reason !== null) {
    trainer.console.line(`Steps are not captured as a CUDA graph: ${reason}.`);
    return plain;
  }
  return capturing(trainer, watch, plain);
}

function whyNot(trainer: CapturedParts): string | null {
  const { ranks, gradients, optimizer, guard, profile, pass, config, schedule } = trainer;
  if (!hasCudaGraphs()) return "this libtorch has none";
  if (pass.model.turns) return TURNS;
  if (pass.model.afterStep) return FOLLOWS;
  if (gradients.shards !== null) return "--deterministic=world computes shard by shard";
  if (optimizer.onDevice === undefined) return `${optimizer.type} takes its numbers from the host`;
  if (config.training.gradient_noise > 0) return "--gradient-noise draws from a key of each step";
  if (schedule.moves) return MOVES;
  if (guard.reads) return "--on-spike skip reads each loss before the update";
  if (trainer.thaw) return `${thawing(config.training)} trains other parameters in later epochs`;
  if (profile !== null) return "--profile-training looks at their ops";
  if (pass.seeds !== null && config.training.gradient_checkpointing) {
    return "--gradient-checkpointing draws a block's random numbers a second time";
  }
  return ranks && whyNotWithRanks(trainer);
}

const MOVES =
  "the schedule moves momentum or weight decay (cycle_momentum, weight_decay_end), and a graph keeps them";

/** Ranks capture the same steps: every step of a whole batch, none of what only some of them could. */
function whyNotWithRanks({ config, ranks, plan, inspect }: CapturedParts): string | null {
  const { capture } = ranks!.team.collectives;
  if (!config.distributed.capture) return "distributed.capture is off";
  if (!capture) return "only NCCL's collectives can be captured";
  if (config.training.sync_bn) return "--sync-bn gathers statistics in the middle of them";
  if (inspect !== null) return "histograms of gradients look into some of them";
  if (plan.global < ranks!.team.world) return "there are more ranks than samples in a batch";
  return null;
}

function capturing(trainer: CapturedParts, watch: Watch, plain: TakeStep): TakeStep {
  const { at, saver, optimizer, pass: { seeds, rollout }, inspect, ranks, cursor, plan, data } = trainer;
  const { metrics } = watch;
  const kinds: Kind[] = [], metricBuffers: GraphMetricBuffer[] = [];
  let givenUp = false;
  return (request) => {
    const { batches, shares, rate, wantNorm, step } = request, asIs = () => plain(request);
    const whole = (cursor.stepInEpoch + 1) * plan.global <= data.train.length;
    if (givenUp || !whole && ranks || inspect?.due(step + 1)) return asIs();
    const norm = wantNorm || trainer.clipNorm > 0;
    const kind = kindOf(kinds, batches, norm, rollout?.steps ?? 0);
    if (kind === null || kind.seen++ < WARM_UP - 1) return asIs();
    if (kind.seen === WARM_UP) {
      const seeing = observingBuffers(watch, metricBuffers, batches.length);
      const taken = takeStep(trainer, seeing.watch, request);
      if (seeing.metricBuffers.length === batches.length) kind.metricBuffers = seeing.metricBuffers;
      return taken;
    }
    const captured = graphFor(kind, batches) ?? captureOrGiveUp(trainer, kind, kinds, batches);
    if (captured === null) {
      givenUp = true;
      return asIs();
    }
    if (shares.includes(0)) return asIs(); // the mean over nothing is NaN, and a graph computes it
    // Numbers are read a step late: another graph has the step between.
    if (captured.replayed !== null && !hasPassed(captured.replayed)) return asIs();
    const { pinned } = captured;
    fill_(pinned.rate, rate);
    give(captured, batches, shares);
    if (seeds) {
      seeds.step = step;
      seeds.micro = 0;
      seeds.seed(0);
    }
    watch.pauses.rest();
    for (const metricBuffer of new Set(kind.metricBuffers)) {
      if (metricBuffer) {
        metrics!.running.reserve(
          metricBuffer,
          kind.metricBuffers.filter((one) => one === metricBuffer).length,
        );
      }
    }
    saver.hold(); // a save may still be copying what the update changes
    at.held();
    optimizer.onDevice!.begin();
    if (ranks) ranks.team.collectives.replay!(captured.graph.replay, "captured step");
    else captured.graph.replay();
    captured.outcomes.forEach((outcome, i) => {
      if (outcome) watch.observe(outcome, { ...batches[i], target: outcome.target });
      else metrics!.running.filled(kind.metricBuffers[i]!, metrics!.itemsOf(batches[i]));
    });
    at.reduced();
    captured.replayed = streamMark(currentStream());
    return { ...captured.taken, numbers: () => readbackBehind(pinned.done, captured.numbers) };
  };
}

/** Null where there is none yet. */
function graphFor(kind: Kind, batches: readonly MicroBatch[]): CapturedStep | null {
  const { captured } = kind;
  if (!batches[0].raw) return captured.length < OF_A_KIND ? null : captured[kind.turn = 1 - kind.turn];
  return captured.find(({ inputs }) =>
    inputs.batches.every(({ raw }, i) => raw!.memory === batches[i].raw!.memory)
  ) ??
    null;
}

/** Sees a step's outcomes, and has buffers for those that are like them. */
function observingBuffers(watch: Watch, known: GraphMetricBuffer[], count: number) {
  const metricBuffers: (GraphMetricBuffer | null)[] = [];
  const observe = (outcome: Outcome, batch: MicroBatch) => {
    watch.observe(outcome, batch);
    const { metrics } = watch, seen = { ...outcome, target: batch.target, items: 0 };
    metricBuffers.push(metrics && graphMetricBuffer(known, metrics.running.measure, seen, count));
  };
  return { metricBuffers, watch: { observe, pauses: watch.pauses } };
}

/** Null where there are as many kinds as may have graphs. */
function kindOf(
  kinds: Kind[],
  batches: readonly MicroBatch[],
  wantNorm: boolean,
  rollout: number,
): Kind | null {
  const known = kinds.find((kind) =>
    kind.wantNorm === wantNorm && kind.rollout === rollout && sameShapes(kind.like, batches)
  );
  if (known !== undefined || kinds.length === MOST_GRAPHS) return known ?? null;
  const like = batches.map(({ input, target, raw }) => ({
    input: shapeOf(input),
    target: shapeOf(target),
    raw: !!raw,
  }));
  const kind: Kind = { like, wantNorm, rollout, metricBuffers: [], seen: 0, captured: [], turn: 0 };
  kinds.push(kind);
  return kind;
}

const sameShapes = (known: readonly Like[], batches: readonly MicroBatch[]): boolean =>
  known.length === batches.length &&
  known.every(({ input, target, raw }, i) =>
    sameShape(input, batches[i].input) && sameShape(target, batches[i].target) && raw === !!batches[i].raw
  );

/** Rows that lie where the feed copies them are read there; others are copied into tensors of the graph's own. */
function inputsFor(batches: readonly MicroBatch[]): Inputs {
  if (batches[0].raw) {
    return {
      batches: batches.map((b) => ({ ...b, input: keep(detach(b.input)), target: keep(detach(b.target)) })),
      groups: [],
    };
  }
  const own = noGrad(() =>
    batches.map(({ input, target }) => ({ input: keep(emptyLike(input)), target: keep(emptyLike(target)) }))
  );
  return { batches: own, groups: byType(own.flatMap(tensorsOf)) };
}

/** A step has a loss, a norm and a finding at most. */
const MOST_NUMBERS = 3;

function newPinnedBuffers(dtype: DType): PinnedBuffers {
  const of = (shape: number[], dtype: DType) => keep(uninitialised(shape, { dtype, pinned: true }));
  return { rate: of([], "f32"), numbers: of([MOST_NUMBERS], dtype), done: newEvent() };
}

function byType(tensors: readonly Tensor[]): Inputs["groups"] {
  const types = tensors.map(({ dtype }) => dtype);
  return [...new Set(types)].map((dtype) => {
    const places = types.flatMap((type, i) => type === dtype ? [i] : []);
    return { tensors: places.map((i) => tensors[i]), places };
  });
}

const tensorsOf = ({ input, target }: MicroBatch): Tensor[] => [input, target];

/** Writes what the graph reads. */
function give(
  captured: CapturedStep,
  batches: readonly MicroBatch[],
  shares: readonly Share[],
): void {
  const from = batches.flatMap(tensorsOf);
  for (const { tensors, places } of captured.inputs.groups) foreachCopy_(tensors, places.map((i) => from[i])); // a kernel each
  captured.shares?.forEach((place, i) => {
    const share = shares[i];
    if (typeof share !== "number") copy_(place, share);
    else if (share !== captured.known[i]) fill_(place, share);
  });
  captured.known = shares;
}

/** Null on every rank where one of them can't. */
function captureOrGiveUp(
  trainer: CapturedParts,
  kind: Kind,
  kinds: readonly Kind[],
  batches: readonly MicroBatch[],
): CapturedStep | null {
  const { ranks, gradients: { arena }, console } = trainer;
  const began = performance.now(), before = cudaMemory().used;
  const beside = kinds.flatMap((one) => one.captured)[0]?.graph;
  let captured: CapturedStep | null = null, reason = "another rank can't";
  try {
    captured = capture(trainer, kind, inputsFor(batches), beside);
  } catch (error) {
    reason = messageOf(error).replace(/\.$/, "");
    synchroniseCuda(); // a GPU that has failed ends the run here
    if (arena.direct) scope(() => takeGradients(arena)); // half a backward's
  }
  const all = ranks?.team.reduce([captured === null ? 0 : 1], "min", "captured?")[0] !== 0;
  if (captured === null || !all) warnPlain(trainer, reason);
  else {
    const took = Math.round(performance.now() - began), bytes = Math.max(0, cudaMemory().used - before);
    addGraphMemory(trainer.gradients, bytes);
    if (beside === undefined) {
      console.line(
        `Steps are replayed as a CUDA graph from here on: captured in ${took} ms, with ${
          formatBytes(bytes)
        } more of the GPU's memory.`,
      );
    }
  }
  if (captured !== null && all) kind.turn = kind.captured.push(captured) - 1;
  return all ? captured : null;
}

function warnPlain({ warn, cursor }: CapturedParts, reason: string): void {
  const message = `The training step can't be captured as a CUDA graph, so it runs op by op: ${reason}. ` +
    "--no-compile leaves the attempt out.";
  warn(message, cursor.step + 1);
}

const nothing = () => {};

/** Graphs share their memory: what one leaves for the next step lies outside, or is a tensor that is kept. */
function capture(
  trainer: CapturedParts,
  { wantNorm, metricBuffers }: Kind,
  inputs: Inputs,
  beside?: CudaGraph,
): CapturedStep {
  const { pass: { seeds }, optimizer, ranks } = trainer;
  const outcomes: CapturedStep["outcomes"][number][] = [], { batches } = inputs;
  const { dtype, device } = trainer.gradients.arena.flat, pinned = newPinnedBuffers(dtype);
  const shares = batches.length === 1 && !ranks ? null : batches.map(() => keep(scalar(1, dtype, device)));
  const parts: StepParts = {
    ...trainer,
    at: unwatched,
    saver: { hold: nothing },
    guard: { reads: false, refuse: () => null },
    inspect: null,
    optimizer: {
      ...optimizer,
      step: (_, found = null, clip = null) => optimizer.onDevice!.queue(found, clip),
    },
  };
  const watch: StepWatch = {
    observe({ output, loss }, { target }) {
      const metricBuffer = metricBuffers[outcomes.length] ?? null;
      if (metricBuffer) fillNext(metricBuffer, { output, target, loss, items: 0 });
      const copied = (t: Tensor) => keep(detach(t));
      outcomes.push(
        metricBuffer ? null : { output: copied(output), loss: copied(loss), target: copied(target) },
      );
    },
    pauses: { next: nothing, rest: nothing },
  };
  if (seeds) seeds.held = true; // generators draw from what is set before each replay
  let taken: StepTaken | null = null, numbers: Tensor | null = null;
  try {
    const step = () => {
      copy_(optimizer.onDevice!.rate, pinned.rate, true);
      const request = {
        batches,
        shares: shares ?? [1],
        rate: NaN,
        wantNorm,
        step: 0,
        passes: batches.length,
      };
      taken = takeStep(parts, watch, request);
      const made = stepNumbers(taken);
      numbers = keep(narrow(pinned.numbers, 0, 0, made.numel));
      copy_(numbers, made, true);
    };
    const make = () => captureGraph(step, { draws: seeds !== null, beside });
    const graph = ranks ? ranks.team.collectives.capture!(make) : make();
    const all = { taken: taken!, numbers: numbers! };
    return { graph, inputs, pinned, replayed: null, shares, outcomes, ...all, known: [] };
  } finally {
    if (seeds) seeds.held = false;
  }
}
