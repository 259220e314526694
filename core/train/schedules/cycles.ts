// Schedules that go up and down, with the momentum going the other way: torch's CyclicLR and OneCycleLR.
import { argumentsOf, count, flag, type Groups, type Kind, type Law, number, word } from "./law.ts";

const CYCLIC = {
  base_lr: number({ min: 0 }),
  max_lr: number({ min: 0 }, ({ base }) => base),
  step_size_up: count(2000),
  step_size_down: count(0, 0),
  mode: word(["triangular", "triangular2", "exp_range"], "triangular"),
  gamma: number({ min: 0, above: true }, 1),
  cycle_momentum: flag(true),
  base_momentum: number({ min: 0, max: 1, below: true }, 0.8),
  max_momentum: number({ min: 0, max: 1, below: true }, 0.9),
};

const cyclic: Kind = {
  arguments: CYCLIC,
  open(call, room) {
    const a = argumentsOf(CYCLIC, call, room);
    const total = a.step_size_up + (a.step_size_down || a.step_size_up), ratio = a.step_size_up / total;
    const place = (i: number) => {
      const cycle = Math.floor(1 + i / total), x = 1 + i / total - cycle;
      const height = x <= ratio ? x / ratio : (x - 1) / (ratio - 1);
      const scale = a.mode === "triangular"
        ? 1
        : a.mode === "triangular2"
        ? 1 / 2 ** (cycle - 1)
        : a.gamma ** i;
      return { height, scale };
    };
    const rate = (i: number) => {
      const { height, scale } = place(i);
      return a.base_lr + (a.max_lr - a.base_lr) * height * scale;
    };
    return {
      ...{ torch: "CyclicLR", base: a.base_lr, rate },
      ...(a.cycle_momentum && {
        momentum(i: number) {
          const { height, scale } = place(i);
          return a.max_momentum - (a.max_momentum - a.base_momentum) * height * scale;
        },
        numbers: { max_momentum: a.max_momentum, base_momentum: a.base_momentum },
      }),
      state: (_, groups) => ({
        max_lrs: groups.each(a.max_lr),
        total_size: total,
        step_ratio: ratio,
        mode: a.mode,
        gamma: a.gamma,
        scale_mode: a.mode === "exp_range" ? "iterations" : "cycle",
        _scale_fn_custom: null,
        ...momentumState(a, groups),
      }),
    };
  },
};

function momentumState(
  a: { readonly cycle_momentum: boolean; readonly base_momentum: number; readonly max_momentum: number },
  { count, usesBeta }: Groups,
) {
  const all = (value: number) => Array.from({ length: count }, () => value);
  return {
    cycle_momentum: a.cycle_momentum,
    ...(a.cycle_momentum && {
      use_beta1: usesBeta,
      base_momentums: all(a.base_momentum),
      max_momentums: all(a.max_momentum),
    }),
  };
}

const ONE_CYCLE = {
  max_lr: number({ min: 0 }, ({ base }) => base),
  total_steps: count(({ span }) => span),
  pct_start: number({ min: 0, max: 1 }, 0.3),
  anneal_strategy: word(["cos", "linear"], "cos"),
  cycle_momentum: flag(true),
  base_momentum: number({ min: 0, max: 1, below: true }, 0.85),
  max_momentum: number({ min: 0, max: 1, below: true }, 0.95),
  div_factor: number({ min: 0, above: true }, 25),
  final_div_factor: number({ min: 0, above: true }, 1e4),
  three_phase: flag(false),
};

type OneCycle = { readonly [K in "max_lr" | "total_steps" | "pct_start"]: number } & {
  readonly three_phase: boolean;
};

/** Ends are torch's: the last of `total_steps` has the least rate. */
function phasesOf({ total_steps: total, pct_start, three_phase }: OneCycle) {
  const up = pct_start * total - 1;
  const phase = (end_step: number, from: string, to: string, momenta: readonly [string, string]) => ({
    ...{ end_step, start_lr: from, end_lr: to },
    ...{ start_momentum: momenta[0], end_momentum: momenta[1] },
  });
  const rise = phase(up, "initial_lr", "max_lr", ["max_momentum", "base_momentum"]);
  return three_phase
    ? [
      rise,
      phase(2 * pct_start * total - 2, "max_lr", "initial_lr", ["base_momentum", "max_momentum"]),
      phase(total - 1, "initial_lr", "min_lr", ["max_momentum", "max_momentum"]),
    ]
    : [rise, phase(total - 1, "max_lr", "min_lr", ["base_momentum", "max_momentum"])];
}

const onecycle: Kind = {
  arguments: ONE_CYCLE,
  open(call, room): Law {
    const a = argumentsOf(ONE_CYCLE, call, room), phases = phasesOf(a);
    const initial_lr = a.max_lr / a.div_factor, min_lr = initial_lr / a.final_div_factor;
    const levels: Readonly<Record<string, number>> = {
      ...{ initial_lr, min_lr, max_lr: a.max_lr },
      ...{ max_momentum: a.max_momentum, base_momentum: a.base_momentum },
    };
    const between = (from: number, to: number, part: number) =>
      a.anneal_strategy === "cos"
        ? to + (from - to) / 2 * (Math.cos(Math.PI * part) + 1)
        : (to - from) * part + from;
    const at = (i: number, what: "lr" | "momentum") => {
      const now = Math.min(i, a.total_steps - 1);
      let from = 0, phase = phases[0];
      for (let p = 0; p < phases.length; p++) {
        phase = phases[p];
        if (now <= phase.end_step || p === phases.length - 1) break;
        from = phase.end_step;
      }
      const width = phase.end_step - from;
      const [begin, end] = what === "lr"
        ? [phase.start_lr, phase.end_lr]
        : [phase.start_momentum, phase.end_momentum];
      return width === 0 ? levels[end] : between(levels[begin], levels[end], (now - from) / width);
    };
    return {
      ...{ torch: "OneCycleLR", base: initial_lr },
      rate: (i) => at(i, "lr"),
      rates: { initial_lr, max_lr: a.max_lr, min_lr },
      ...(a.cycle_momentum && {
        momentum: (i: number) => at(i, "momentum"),
        numbers: { max_momentum: a.max_momentum, base_momentum: a.base_momentum },
      }),
      state: (_, { usesBeta }) => ({
        total_steps: a.total_steps,
        _schedule_phases: phases,
        _anneal_func_type: a.anneal_strategy,
        cycle_momentum: a.cycle_momentum,
        use_beta1: usesBeta,
      }),
    };
  },
};

export const cycles = { cyclic, onecycle } as const;
