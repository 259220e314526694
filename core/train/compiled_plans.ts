// The plans of a micro-batch's shape: from a recording to code that runs.
import { fill_, uninitialised, writeBytes, zero_, zeros } from "../../ffi/make.ts";
import { select, toCopy } from "../../ffi/ops.ts";
import { threads } from "../../ffi/context.ts";
import { unrecorded } from "../../ffi/tape.ts";
import { record } from "../../ffi/trace.ts";
import { type Device, keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { GradientCut } from "../compile/cuts.ts";
import { derive } from "../compile/derive.ts";
import { isHalf } from "../compile/graph.ts";
import { lower, type Lowered } from "../compile/lower/lower.ts";
import { type CompiledPlan, makePlan, type NoPlan } from "../compile/plan.ts";
import { COMMON, denseIn } from "../compile/runner.ts";
import { orRefusal, sentenceOf } from "../compile/refused.ts";
import { Workspace } from "../compile/workspace.ts";
import { type Isa, machineIsa, noIsa } from "../../ffi/machine.ts";
import { messageOf } from "../base/errors.ts";
import { type BlockDone, type Outcome, type Pass, straight, type Weight } from "./blocks.ts";
import type { Arena } from "./arena.ts";
import type { Mode } from "./compiler.ts";

/** Losses are read when the next step is under way; a line of memory each. */
const CELLS = 8, CELL = 16;

/** A micro-batch that was recorded, and what came of it. */
export interface Recorded {
  readonly input: Tensor;
  readonly target: Tensor;
  readonly weight: Weight;
  readonly outcome: Outcome;
}

/** Plans are made for this. */
export interface Wanted {
  readonly mode: Mode;
  readonly isa: Isa | "cuda";
  /** Gradients are waited for here. */
  readonly cuts: readonly GradientCut[];
  /** Backward computes each block's values once more. */
  readonly recomputes: boolean;
  readonly workspace: Workspace;
  /** Comes before each run. */
  readonly again?: () => void;
  /** The program keeps nothing of its own from step to step. */
  readonly repeats: boolean;
  /** There is no backward. */
  readonly evaluates?: boolean;
}

/** The plans of one shape: one writes gradients, the other adds to them. */
export interface Plans {
  readonly wanted: Wanted;
  readonly first: CompiledPlan;
  readonly lowered: Lowered;
  /** Random numbers of groups, on a GPU; null where they draw none. */
  readonly drawing: Drawing | null;
  run(input: Tensor, target: Tensor, weight: Weight, adds: boolean, done: BlockDone | null): Outcome;
  free(): void;
}

export function makePlans(
  arena: Arena,
  wanted: Wanted,
  recording: Parameters<typeof lower>[0],
  { input, target, weight, outcome }: Recorded,
): Plans | { readonly reason: string } {
  const { mode, isa, cuts, recomputes, workspace, again, repeats, evaluates = false } = wanted;
  const lowered = lower(recording, { input, target, parameters: arena.parameters, ...outcome }, {
    exact: mode === "exact",
    device: arena.flat.device,
    repeats,
  });
  if ("reason" in lowered) return { reason: sentenceOf(lowered) };
  const { graph: forward } = lowered, weighted = weight !== null;
  const learning = evaluates ? 0 : arena.parameters.length;
  const derived = (adds: boolean) => derive(forward, learning, { weighted, adds });
  const graph = orRefusal(() => derived(false));
  if ("reason" in graph) return { reason: sentenceOf(graph) };
  const { device } = arena.flat;
  const { shape, dtype } = outcome.output;
  const output = keep(
    uninitialised(shape, { dtype: device !== "cpu" && isHalf(dtype) ? dtype : "f32", device }),
  );
  const losses = keep(zeros([CELLS * CELL], { device }));
  const cells = Array.from({ length: CELLS }, (_, i) => keep(select(losses, 0, i * CELL)));
  // 0-dim constants may lie on the host, where libtorch's kernels take their numbers from.
  const held = lowered.held.map((t) => t.device === device ? t : keep(toCopy(t, t.dtype, null, device)));
  const drawing = lowered.drawings > 0 ? drawingOn(device, lowered.drawings) : null;
  const memory = { ...arena, held, output, losses, workspace, drawing: drawing?.numbers };
  const make = (adds: boolean) =>
    makePlan(adds ? derived(true) : graph, memory, {
      exact: mode === "exact",
      adds,
      isa,
      threads: threads(),
      recomputes,
      cuts,
    });
  const first = make(false);
  if ("lacks" in first) return { reason: whyNoPlan(first) };
  const written = new Set(first.placed.slots.flatMap((slot) => slot.from === "gradient" ? [slot.index] : []));
  const unreached = evaluates ? [] : arena.gradients.filter((_, i) => !written.has(i));
  let adding: CompiledPlan | null = null, cell = 0;
  return {
    wanted,
    first,
    lowered,
    drawing,
    run(input, target, weight, adds, done) {
      let plan = first;
      if (!adds) { for (const gradient of unreached) zero_(gradient); }
      else {
        if (adding === null) {
          const made = make(true);
          if ("lacks" in made) throw new Error(`internal: no second plan: ${made.name}.`);
          adding = made;
        }
        plan = adding;
      }
      again?.();
      cell = (cell + 1) % CELLS;
      plan.run(
        denseIn(input, graph.imagesLast ? "last" : "first"),
        denseIn(target),
        weight,
        cell * CELL,
        done,
      );
      return { output, loss: cells[cell] };
    },
    free() {
      first.free();
      adding?.free();
      held.forEach((t, i) => t !== lowered.held[i] && t.free());
      for (const t of [output, losses, ...cells]) t.free();
      drawing?.free();
      lowered.free();
    },
  };
}

/** The numbers that groups draw follow from the step's key and the micro-batch's number. */
interface Drawing {
  readonly numbers: Tensor;
  /** A new step, of which the first micro-batch comes. */
  begin(key: bigint): void;
  /** Null where nothing is to be dropped. */
  micro(micro: number | null): void;
  free(): void;
}

/** A number of f64, by which keys go to a device, has so many bits. */
const KEY_BITS = 52;

function drawingOn(device: Device, draws: number): Drawing {
  const numbers = scope(() => {
    const own = uninitialised([COMMON + draws], { dtype: "i64" });
    const each = BigInt64Array.from({ length: COMMON + draws }, (_, i) => BigInt(i < COMMON ? 0 : i));
    writeBytes(own, new Uint8Array(each.buffer));
    return keep(toCopy(own, "i64", null, device));
  });
  const [key, micro] = [0, 1].map((place) => keep(select(numbers, 0, place)));
  let known = 0, freed = false;
  const set = (next: number) => {
    if (next !== known) unrecorded(() => fill_(micro, known = next));
  };
  return {
    numbers,
    begin(next) {
      if (freed) return;
      unrecorded(() => fill_(key, Number(BigInt.asUintN(KEY_BITS, next)))); // a step may be recorded meanwhile
      set(0);
    },
    micro: (next) => set(next ?? -1),
    free() {
      freed = true;
      for (const t of [numbers, key, micro]) t.free();
    },
  };
}

/** The plan of one micro-batch, to look at; or why there is none. */
export function examinePlan(
  p: Pass,
  arena: Arena,
  input: Tensor,
  target: Tensor,
  { mode, recomputes = false, repeats = false }: {
    readonly mode: Mode;
    readonly recomputes?: boolean;
    readonly repeats?: boolean;
  },
): Pick<CompiledPlan, "placed" | "codeBytes" | "milliseconds"> | { readonly reason: string } {
  const isa = machineIsa();
  if (isa === null) return { reason: noIsa() };
  return scope(() => {
    const { result, recording } = record(() => straight(p, input, target, null));
    const made = attemptPlans(() =>
      makePlans(arena, { mode, isa, cuts: [], recomputes, repeats, workspace: new Workspace() }, recording, {
        input,
        target,
        weight: null,
        outcome: result,
      })
    );
    if ("reason" in made) return { reason: made.reason };
    const { placed, codeBytes, milliseconds } = made.first;
    made.free();
    return { placed, codeBytes, milliseconds };
  });
}

const LACKS: Readonly<Record<NoPlan["lacks"], (name: string) => string>> = {
  order: (name) =>
    `libtorch computes ${name} in an order that compiled steps don't follow (--compile=fast does without)`,
  memory: (name) => `this machine gives no memory for code (${name})`,
  room: (bytes) => `the values of a step take ${bytes}, and this machine has less memory free`,
  symbol: (name) => `this libtorch has no ${name}`,
  compiler: (why) => why,
};

const whyNoPlan = ({ lacks, name }: NoPlan): string => LACKS[lacks](name);

/** A step that can't be compiled runs as it is, whatever is wrong. */
export function attemptPlans(make: () => Plans | { readonly reason: string }): ReturnType<typeof make> {
  try {
    return make();
  } catch (error) {
    return { reason: messageOf(error).replace(/\.$/, "") }; // it stands inside of a sentence
  }
}
