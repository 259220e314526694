// Writes a schedule as the state dict of torch's scheduler of its kind, so that a script in Python goes on with the
// same rates: scheduler.load_state_dict takes all its numbers from it.
import type { CheckpointFacts, Cursor, Moved } from "../checkpoint/training_state.ts";
import { learningRate, type Schedule } from "./schedule.ts";
import type { Course, Stretch } from "./schedules/course.ts";
import type { Groups } from "./schedules/law.ts";
import { worst } from "./schedules/plateau.ts";

interface Place {
  /** Optimizer steps and whole epochs that are done. */
  readonly step: number;
  readonly epoch: number;
  /** The share of the rate that each group of parameters has. */
  readonly factors: readonly number[];
  /** "step": epochs from one fall to the next. */
  readonly stepSize: number;
}

type State = Readonly<Record<string, unknown>>;

interface TorchScheduler {
  readonly state: State;
  /** The same for a script that steps StepLR after each optimizer step; present where `state` is of epochs. */
  readonly perStep?: State;
  /** Numbers that a scheduler leaves in the optimizer's groups, for the whole rate. */
  readonly group: Readonly<Record<string, number>>;
}

/** The run's own, for a checkpoint: of a name alone, or of stretches. */
export function torchState(
  course: Course,
  { step, epoch, plateau }: Pick<Cursor, "step" | "epoch" | "plateau">,
  { factors, stepSize, usesBeta }: Pick<Place, "factors" | "stepSize"> & { readonly usesBeta: boolean },
): CheckpointFacts["scheduler"] {
  const { plain, clock } = course, moved = course.moved(step);
  const own = moved && { moved: moved satisfies Moved };
  if (plain) {
    const place = { step: clock.at(step), epoch, factors, stepSize };
    return { ...torchScheduler(plain, place), ...own };
  }
  const each = (rate: number) => factors.map((factor) => rate * factor);
  const groups = { each, count: factors.length, usesBeta }, tick = clock.at(step);
  const rate = course.rate({ step, plateau }), { stretches } = course;
  const all = { group: Object.assign({ initial_lr: course.peak }, ...stretches.map(({ law }) => law.rates)) };
  const numbers = Object.assign({}, ...stretches.map(({ law }) => law.numbers));
  const states = stretches.map((stretch, i) =>
    stateOf(stretch, stretches[i + 1]?.from ?? Infinity, tick, groups)
  );
  const alone = stretches.length === 1 || course.plateau !== null;
  const state = alone ? { ...states.at(-1), _last_lr: each(rate) } : {
    _milestones: stretches.slice(1).map(({ from }) => from),
    last_epoch: tick,
    _last_lr: each(rate),
    _schedulers: states.map((one) => ({ ...one, _last_lr: each(rate) })),
  };
  return { ...all, numbers, state: { ...state, ...plateauState(course, plateau) }, ...own };
}

function stateOf({ law, from }: Stretch, until: number, tick: number, groups: Groups): State {
  const last = Math.max(0, Math.min(tick, until - 1) - from);
  return {
    base_lrs: groups.each(law.base),
    last_epoch: last,
    _step_count: last + 1,
    ...law.state(last, groups),
  };
}

/** torch's has no place in a SequentialLR: a script has it alone, behind the warm-up. */
function plateauState({ plateau: first }: Course, given: Cursor["plateau"]): State | null {
  if (first === null) return null;
  const { mode, best, bad, cooldown, evaluations } = given ?? first;
  return {
    ...{ mode, best: best ?? worst(mode), mode_worse: worst(mode) },
    ...{ cooldown_counter: cooldown, num_bad_epochs: bad, last_epoch: evaluations },
  };
}

/** StepLR is stepped after each epoch, where there is no warm-up; any other after each optimizer step. */
export function torchScheduler(s: Schedule, place: Place): TorchScheduler {
  const { factors, step } = place;
  const each = (rate: number) => factors.map((factor) => rate * factor);
  const common = (base: number, last: number): State => ({
    base_lrs: each(base),
    last_epoch: last,
    _step_count: last + 1,
    _last_lr: each(learningRate(s, step)),
  });
  if (s.type === "onecycle") return oneCycle(s, common(s.peak / 25, step));
  const group = { initial_lr: s.peak };
  if (s.warmup === 0) {
    if (s.type !== "step") return { state: { ...course(s, step), ...common(s.peak, step) }, group };
    const falls = (size: number, last: number) => ({
      ...{ step_size: size, gamma: s.gamma },
      ...common(s.peak, last),
    });
    return { state: falls(place.stepSize, place.epoch), perStep: falls(s.every, step), group };
  }
  const parts = partsOf(s);
  const from = [0, ...parts.map(({ until }) => until).slice(0, -1)];
  return {
    state: {
      _milestones: from.slice(1),
      last_epoch: step,
      _last_lr: each(learningRate(s, step)),
      _schedulers: parts.map(({ until, base, ...part }, i) => {
        const last = Math.max(0, Math.min(step, until - 1) - from[i]);
        return { ...part.state(last), ...common(base, last) };
      }),
    },
    group,
  };
}

interface Part {
  /** The step before which it holds. */
  readonly until: number;
  readonly base: number;
  state(last: number): State;
}

/** SequentialLR's: falls are counted from the run's first step, so the first after the warm-up may be near. */
function partsOf(s: Schedule): Part[] {
  const { warmup, peak, every, gamma } = s;
  const rise = { start_factor: 1 / warmup, end_factor: 1, total_iters: warmup - 1 };
  const warm: Part = { until: warmup, base: peak, state: () => rise };
  if (s.type !== "step") {
    return [warm, { until: Infinity, base: peak, state: (last) => course(s, last) }];
  }
  const falls = Math.floor(warmup / every);
  return [
    warm,
    { until: (falls + 1) * every, base: peak * gamma ** falls, state: () => CONSTANT },
    { until: Infinity, base: peak * gamma ** (falls + 1), state: () => ({ step_size: every, gamma }) },
  ];
}

const CONSTANT: State = { factor: 1, total_iters: 5 };

/** The scheduler after the warm-up holds this, `last` steps into it. */
function course({ type, peak, min, warmup, total, restart }: Schedule, last: number): State {
  const span = Math.max(1, total - warmup);
  switch (type) {
    case "cosine":
      return { T_max: span, eta_min: min };
    case "linear":
      return { start_factor: 1, end_factor: min / peak, total_iters: span };
    case "sgdr": {
      const { every, factor } = restart ?? { every: span, factor: 1 };
      let at = last, length = every;
      for (; at >= length; length *= factor) at -= length;
      return { T_0: every, T_i: length, T_mult: factor, T_cur: at, eta_min: min };
    }
    default:
      return CONSTANT;
  }
}

/** It reads the rates from the groups. PyTorch counts its last step as the end; a schedule here ends after it. */
function oneCycle({ peak, min, warmup, total }: Schedule, common: State): TorchScheduler {
  const up = warmup > 0 ? warmup : Math.max(1, Math.round(0.3 * total));
  const phase = (end: number, from: string, to: string) => ({
    ...{ end_step: end, start_lr: from, end_lr: to },
    ...{ start_momentum: "max_momentum", end_momentum: "base_momentum" },
  });
  return {
    state: {
      total_steps: total + 1,
      _schedule_phases: [phase(up, "initial_lr", "max_lr"), phase(total, "max_lr", "min_lr")],
      _anneal_func_type: "cos",
      cycle_momentum: false,
      use_beta1: false,
      ...common,
    },
    group: { initial_lr: peak / 25, max_lr: peak, min_lr: min },
  };
}
