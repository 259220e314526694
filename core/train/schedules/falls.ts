// Schedules that lead from one rate to another, each as torch.optim.lr_scheduler computes it: from the rate before where torch does,
// so that its bits are torch's, and else by its formula.
import {
  argumentsOf,
  count,
  counts,
  isGiven,
  type Kind,
  type Law,
  number,
  type State,
  whole,
  word,
} from "./law.ts";

const toEnd = (room: { readonly span: number }): number => room.span;
const end = ({ scheduler }: { readonly scheduler: { readonly min_lr: number } }): number => scheduler.min_lr;

/** It stays where the stretch before it has led, or is a share of the highest rate for a time. */
const CONSTANT = { factor: number({ min: 0, max: 1 }, 1), total_iters: count(toEnd) };
const constant: Kind = {
  arguments: CONSTANT,
  open(call, room) {
    const given = argumentsOf(CONSTANT, call, room), { total_iters } = given, { base, before } = room;
    const holds = !isGiven(call, "factor", CONSTANT);
    const factor = !holds ? given.factor : before === null || base === 0 ? 1 : before / base;
    const state: State = { factor, total_iters: holds ? Math.max(total_iters, 2 ** 31) : total_iters };
    return {
      ...{ torch: "ConstantLR", base, recursive: true },
      rate: (i, last) =>
        i === 0
          ? holds && before !== null ? before : base * factor
          : i === total_iters && !holds
          ? last * (1 / factor)
          : last,
      state: () => state,
    };
  },
};

const LINEAR = {
  start_factor: number({ min: 0, max: 1 }, 1 / 3),
  end_factor: number({ min: 0, max: 1 }, 1),
  total_iters: count(toEnd),
};
/** As transformers begin their warm-up; torch refuses it. */
const fromZero = (base: number, end: number, total: number) => (i: number): number =>
  base * (end * Math.min(i, total) / total);

export function linearLaw(base: number, start: number, end: number, total: number): Law {
  const zero = fromZero(base, end, total);
  return {
    ...{ torch: "LinearLR", base, recursive: true },
    rate: (i, last) =>
      start === 0
        ? zero(i)
        : i === 0
        ? base * start
        : i > total
        ? last
        : last * (1 + (end - start) / (total * start + (i - 1) * (end - start))),
    state: () => ({ start_factor: start, end_factor: end, total_iters: total }),
  };
}

const linear: Kind = {
  arguments: LINEAR,
  open(call, room) {
    const given = argumentsOf(LINEAR, call, room), { base } = room;
    const falls = room.before !== null && !isGiven(call, "start_factor", LINEAR) &&
      !isGiven(call, "end_factor", LINEAR);
    const [from, to] = falls ? [1, base > 0 ? end(room) / base : 0] : [given.start_factor, given.end_factor];
    return linearLaw(base, from, to, given.total_iters);
  },
};

const COSINE = { T_max: count(toEnd), eta_min: number({ min: 0 }, end) };
const cosine: Kind = {
  arguments: COSINE,
  open(call, room) {
    const { T_max, eta_min } = argumentsOf(COSINE, call, room), { base } = room;
    const closed = (i: number) => eta_min + (base - eta_min) * (1 + Math.cos(Math.PI * i / T_max)) / 2;
    return {
      ...{ torch: "CosineAnnealingLR", base, recursive: true },
      rate: (i, last) =>
        i === 0
          ? base === eta_min ? base : closed(0)
          : (i - 1 - T_max) % (2 * T_max) === 0
          ? last + (base - eta_min) * (1 - Math.cos(Math.PI / T_max)) / 2
          : (1 + Math.cos(Math.PI * i / T_max)) / (1 + Math.cos(Math.PI * (i - 1) / T_max)) *
              (last - eta_min) + eta_min,
      state: () => ({ T_max, eta_min }),
    };
  },
};

const SGDR = {
  T_0: count(({ scheduler, ticks }) => ticks(`${scheduler.restart_epochs}ep`)),
  T_mult: whole(1, 1),
  eta_min: number({ min: 0 }, end),
};
const sgdr: Kind = {
  arguments: SGDR,
  open(call, room) {
    const { T_0, T_mult: given, eta_min } = argumentsOf(SGDR, call, room), { base, scheduler } = room;
    const bare = call.values.length === 0 && call.named.size === 0; // the settings' restarts, which grow longer
    const T_mult = bare ? scheduler.restart_factor : given;
    const place = (i: number) => {
      let at = i, length = T_0;
      for (; at >= length; length *= T_mult) at -= length;
      return { T_cur: at, T_i: length };
    };
    return {
      ...{ torch: "CosineAnnealingWarmRestarts", base },
      rate(i) {
        const { T_cur, T_i } = place(i);
        return eta_min + (base - eta_min) * (1 + Math.cos(Math.PI * T_cur / T_i)) / 2;
      },
      state: (i) => ({ T_0, T_mult, eta_min, ...place(i) }),
    };
  },
};

const STEP = {
  step_size: count(({ scheduler, ticks }) => ticks(`${scheduler.step_size}ep`)),
  gamma: number({ min: 0, above: true }, ({ scheduler }) => scheduler.gamma),
};
const step: Kind = {
  arguments: STEP,
  open(call, room) {
    const { step_size, gamma } = argumentsOf(STEP, call, room), { base } = room;
    return {
      ...{ torch: "StepLR", base, recursive: true },
      rate: (i, last) => i === 0 ? base : i % step_size === 0 ? last * gamma : last,
      state: () => ({ step_size, gamma }),
    };
  },
};

const MULTISTEP = { milestones: counts(), gamma: number({ min: 0, above: true }, 0.1) };
const multistep: Kind = {
  arguments: MULTISTEP,
  open(call, room) {
    const { milestones, gamma } = argumentsOf(MULTISTEP, call, room), { base } = room;
    const times = new Map<number, number>();
    for (const at of milestones) times.set(at, (times.get(at) ?? 0) + 1);
    return {
      ...{ torch: "MultiStepLR", base, recursive: true },
      rate: (i, last) => i === 0 ? base : times.has(i) ? last * gamma ** times.get(i)! : last,
      // A dict is enough for torch to go on by; it begins with a Counter only, which the script has.
      state: (i) => ({ gamma, ...(i > 0 && { milestones: times }) }),
    };
  },
};

const EXPONENTIAL = { gamma: number({ min: 0, above: true }) };
const exponential: Kind = {
  arguments: EXPONENTIAL,
  open(call, room) {
    const { gamma } = argumentsOf(EXPONENTIAL, call, room), { base } = room;
    return {
      ...{ torch: "ExponentialLR", base, recursive: true },
      rate: (i, last) => i === 0 ? base : last * gamma,
      state: () => ({ gamma }),
    };
  },
};

const POLYNOMIAL = {
  total_iters: count(toEnd),
  power: number({ min: 0, above: true }, 1),
  lr_end: number({ min: 0 }, end),
};
/** With an end that is not 0 as in transformers, since torch has no such. */
const polynomial: Kind = {
  arguments: POLYNOMIAL,
  open(call, room) {
    const { total_iters: total, power, lr_end } = argumentsOf(POLYNOMIAL, call, room), { base } = room;
    if (lr_end > 0) {
      return ofFunction(base, (i) => (base - lr_end) * (1 - Math.min(i, total) / total) ** power + lr_end);
    }
    return {
      ...{ torch: "PolynomialLR", base, recursive: true },
      rate: (i, last) =>
        i === 0 ? base : i > total ? last : last * ((1 - i / total) / (1 - (i - 1) / total)) ** power,
      state: () => ({ total_iters: total, power }),
    };
  },
};

/** One that torch has no class for: a script has it as a LambdaLR, with a function of its own. */
export const ofFunction = (base: number, rate: (i: number) => number): Law => ({
  ...{ torch: "LambdaLR", base, rate },
  state: (_, { count }) => ({ lr_lambdas: Array.from({ length: count }, () => null) }),
});

/** Without a warm-up before it; as transformers'. */
const TIMESCALE = 10_000;
const INVERSE_SQRT = { timescale: count(({ begun }) => begun || TIMESCALE) };
const inverseSqrt: Kind = {
  arguments: INVERSE_SQRT,
  open(call, room) {
    const { timescale } = argumentsOf(INVERSE_SQRT, call, room), { base } = room;
    return ofFunction(base, (i) => base / Math.sqrt((i + timescale) / timescale));
  },
};

const WSD = {
  num_decay_steps: count(({ span }) => Math.max(1, Math.round(0.1 * span))),
  decay_type: word(["cosine", "linear", "sqrt", "1-sqrt"], "cosine"),
  min_lr_ratio: number({ min: 0, max: 1 }, (room) => room.base > 0 ? Math.min(1, end(room) / room.base) : 0),
};
/** Warm-up, stable, decay (Hu et al. 2024), in transformers' terms. */
const wsd: Kind = {
  arguments: WSD,
  open(call, room) {
    const { num_decay_steps: decay, decay_type, min_lr_ratio: least } = argumentsOf(WSD, call, room);
    const { base, span } = room, from = Math.max(0, span - decay);
    return ofFunction(base, (i) => {
      if (i < from) return base;
      const done = Math.min(1, (i - from) / decay);
      const left = decay_type === "linear"
        ? 1 - done
        : decay_type === "cosine"
        ? 0.5 * (1 + Math.cos(Math.PI * done))
        : 1 - Math.sqrt(done);
      return base * (left * (1 - least) + least);
    });
  },
};

export const falls = {
  ...{ constant, linear, cosine, sgdr, step, multistep, exponential, polynomial },
  ...{ inverse_sqrt: inverseSqrt, wsd },
} as const;
