// The course of a run's learning rate: a name of --scheduler alone is a formula of the step (schedule.ts), and everything else is a
// list of stretches, each with a law. With it may go momentum and weight decay. It is a function of the step, and of what the
// evaluations came to where a stretch goes by them.
import { UserError } from "../../base/errors.ts";
import type { Cursor, Moved, Plateau } from "../../checkpoint/training_state.ts";
import type { Facts } from "../../models/model.ts";
import { monitorOf } from "../../run/best.ts";
import { isWritten } from "../../settings/sections/schedule.ts";
import { settingsOf } from "../../settings/sections/optimizer.ts";
import type { Config } from "../../settings/settings.ts";
import type { BatchPlan } from "../batches.ts";
import {
  averagedRate,
  type Clock,
  clockOf,
  learningRate,
  type Schedule,
  scheduleOf,
  towardsAverage,
} from "../schedule.ts";
import { linearLaw } from "./falls.ts";
import type { Law, Room } from "./law.ts";
import { KINDS, stretchesOf, type Written } from "./stretches.ts";

export interface Course {
  rate(at: At): number;
  /** The update of this step has this beside the rate; null where nothing moves. What is left out is as each group has it. */
  moved(step: number): Moved | null;
  /** The run's, where no stretch moves it. */
  readonly momentum: number;
  readonly moves: { readonly momentum: boolean; readonly decay: boolean } | null;
  /** After an evaluation whose monitored metric came to this; undefined where none counts. */
  judged(at: At, value: number): Plateau | undefined;
  /** The evaluations begin with this, where the rate goes by them. */
  readonly plateau: Plateau | null;
  readonly clock: Clock;
  /** Null where there are stretches. */
  readonly plain: Schedule | null;
  readonly stretches: readonly Stretch[];
  /** The rate of a stretch at its tick `i`. */
  within(stretch: number, i: number, plateau?: Plateau): number;
  readonly peak: number;
  readonly notes: readonly string[];
}

type At = Pick<Cursor, "step" | "plateau">;

export interface Stretch {
  readonly law: Law;
  /** The first tick. */
  readonly from: number;
  /** As it was written; null of the warm-up. */
  readonly text: string | null;
}

/** These were there before there were stretches, and their warm-up and settings are those of schedule.ts. */
const PLAIN = ["cosine", "linear", "step", "constant", "onecycle", "sgdr"];

export function openCourse(
  { training }: Pick<Config, "training">,
  peak: number,
  plan: BatchPlan,
  facts: Facts,
): Course {
  const clock = clockOf(training, plan, facts), { scheduler } = training;
  const isPlain = PLAIN.includes(scheduler.type) && !risesOtherwise(training, clock);
  const plain = isPlain ? scheduleOf(training, peak, plan, facts) : null;
  const stretches = plain ? [] : openStretches(training, peak, plan, clock);
  const within = openRates(stretches), swa = averagedRate(training, peak, clock.perEpoch) ?? undefined;
  const decays = scheduler.weight_decay_end !== "", momenta = stretches.some(({ law }) => law.momentum);
  const last = stretches.at(-1), rule = last?.law.plateau;
  const mode = rule?.mode ?? monitorOf({ training }).mode;
  const own = training.optimizer;
  const atTick = (tick: number, plateau?: Plateau) => {
    const at = stretchAt(stretches, tick);
    return within(at, tick - stretches[at].from, plateau);
  };
  if (decays) refuseDecay(training);
  if (!plain) refuseRates(scheduler.type, clock, atTick);
  return {
    ...{ clock, plain, stretches, within, peak, momentum: ownMomentum(own) },
    plateau: rule?.begin(mode) ?? null,
    rate({ step, plateau }) {
      const tick = clock.at(step);
      return plain ? learningRate(plain, tick) : towardsAverage(swa, tick, (tick) => atTick(tick, plateau));
    },
    moves: decays || momenta ? { momentum: momenta, decay: decays } : null,
    moved(step) {
      if (!decays && !momenta) return null;
      const tick = clock.at(step), at = stretchAt(stretches, tick), stretch = stretches[at];
      return {
        ...(stretch?.law.momentum && { momentum: stretch.law.momentum(tick - stretch.from) }),
        ...(decays &&
          { decay: decayAt(own.weight_decay, Number(scheduler.weight_decay_end), tick, clock.total) }),
      };
    },
    judged({ step, plateau }, value) {
      if (!rule || clock.at(step) <= last!.from) return plateau; // the warm-up before it is no plateau
      return rule.judge(plateau ?? rule.begin(mode), value, mode);
    },
    notes: notesOf(stretches, clock, momenta),
  };
}

/** The warm-up is not the one of schedule.ts. */
function risesOtherwise({ scheduler }: Config["training"], clock: Clock): boolean {
  const { type, warmup, warmup_start, warmup_peak } = scheduler;
  const otherwise = warmup_start !== "" || warmup_peak !== "last";
  if (!otherwise || clock.ticks(warmup) === 0) return false;
  if (type === "onecycle") {
    throw new UserError(
      "usage",
      "--scheduler onecycle has a rise of its own: leave warmup_start and warmup_peak out, or write onecycle(div_factor=25).",
    );
  }
  return true;
}

function openStretches(
  training: Config["training"],
  base: number,
  { stepsPerEpoch }: BatchPlan,
  clock: Clock,
): Stretch[] {
  const { scheduler, epochs } = training, { total, ticks, byEpoch } = clock;
  const written = stretchesOf(scheduler.type), warmup = ticks(scheduler.warmup);
  const run = { total, epochs, stepsPerEpoch, byEpoch };
  const stretches: Stretch[] = [];
  if (warmup > 0) stretches.push({ law: warmUp(base, warmup, scheduler), from: 0, text: null });
  let from = warmup, before = warmup > 0 ? base : null;
  written.forEach((one, i) => {
    const length = one.length === null ? null : lengthOf(one, scheduler.type, ticks);
    const span = length ?? Math.max(1, total - from);
    const room: Room = { base, span, begun: from, before, ticks, scheduler, run };
    const law = KINDS[one.name].open(one.call, room);
    stretches.push({ law, from, text: one.text });
    before = length === null ? null : ratesOf(law)(span, undefined);
    from += span;
    if (i === written.length - 1 && length !== null && from < total) {
      const hold = { name: "constant", values: [], named: new Map(), text: "constant" };
      const rest = { ...room, span: total - from, begun: from, before };
      stretches.push({ law: KINDS.constant.open(hold, rest), from, text: "constant" });
    }
  });
  return stretches;
}

function lengthOf({ length, text }: Written, scheduler: string, ticks: Clock["ticks"]): number {
  const span = ticks(length!);
  if (Number.isInteger(span) && span >= 1) return span;
  throw new UserError(
    "usage",
    `--scheduler "${scheduler}": "${text}" can't last ${length}: give a length from a step on, such as 500steps, 10ep, 1e6samples ` +
      "or 20% of the run.",
  );
}

/** The last of `n` steps has the highest rate, or the one behind them has it. */
function warmUp(
  base: number,
  n: number,
  { warmup_start: start, warmup_peak }: Config["training"]["scheduler"],
): Law {
  if (warmup_peak === "next") return linearLaw(base, start === "" ? 1 / (n + 1) : Number(start), 1, n);
  if (start !== "" && n > 1) return linearLaw(base, Number(start), 1, n - 1);
  const state = { start_factor: 1 / n, end_factor: 1, total_iters: n - 1 };
  return { torch: "LinearLR", base, rate: (i) => base * Math.min(n, i + 1) / n, state: () => state };
}

const stretchAt = (stretches: readonly Stretch[], tick: number): number =>
  Math.max(0, stretches.findLastIndex(({ from }) => from <= tick));

/** A rate that comes from the one before it is remembered, so that the next one is near. */
function ratesOf(law: Law): (i: number, plateau: Plateau | undefined) => number {
  let at = -1, rate = NaN;
  return (i, plateau) => {
    if (!law.recursive) return law.rate(i, NaN, plateau);
    if (i < at) [at, rate] = [-1, NaN];
    while (at < i) rate = law.rate(++at, rate, plateau);
    return rate;
  };
}

function openRates(stretches: readonly Stretch[]): Course["within"] {
  const rates = stretches.map(({ law }) => ratesOf(law));
  return (stretch, i, plateau) => rates[stretch](i, plateau);
}

function ownMomentum({ type, momentum, muon_momentum, beta1 }: Config["training"]["optimizer"]): number {
  const read = settingsOf(type);
  return read.includes("muon_momentum") ? muon_momentum : read.includes("momentum") ? momentum : beta1;
}

/** DINO's: a cosine over the whole run. The factor of the weight decay. */
const decayAt = (from: number, to: number, tick: number, total: number): number =>
  (to + 0.5 * (from - to) * (1 + Math.cos(Math.PI * Math.min(1, tick / total)))) / from;

/** So many rates are tried, from the first to the last. */
const TRIED = 1000;

/** A function that fails at a late step, or a rate that grows beyond all numbers, is found before the first one. */
function refuseRates(scheduler: string, { total, byEpoch }: Clock, rateAt: (tick: number) => number): void {
  const count = Math.min(total, TRIED);
  for (let i = 0; i < count; i++) {
    const tick = count < 2 ? 0 : Math.round(i * (total - 1) / (count - 1)), rate = rateAt(tick);
    if (Number.isFinite(rate) && rate >= 0) continue;
    throw new UserError(
      "usage",
      `--scheduler ${scheduler} comes to a learning rate of ${rate} at ${
        byEpoch ? "epoch" : "step"
      } ${tick}: look at it ` +
        "with hpctrain schedule and a smaller --max-steps.",
    );
  }
}

function refuseDecay(
  { optimizer: { weight_decay }, scheduler: { weight_decay_end } }: Config["training"],
): void {
  if (weight_decay > 0) return;
  throw new UserError(
    "usage",
    `training.scheduler.weight_decay_end ${weight_decay_end} leads there from --weight-decay, which is 0: give one above 0.`,
  );
}

function notesOf(stretches: readonly Stretch[], { total, byEpoch }: Clock, momenta: boolean): string[] {
  if (stretches.length === 0) return [];
  const unit = byEpoch ? "epoch" : "step", reached = stretches.filter(({ from }) => from < total);
  const parts = reached.map(({ text, from }, i) => {
    const to = stretches[i + 1]?.from ?? total;
    return `${text ?? "warm-up"} ${from === 0 ? `to ${unit}` : "to"} ${Math.min(to, total)}`;
  });
  return [
    `Schedule: ${parts.join(", ")}${momenta ? "; momentum goes the other way (cycle_momentum)" : ""}`,
    ...stretches.slice(reached.length).map(({ text, from }) =>
      `The stretch "${text ?? "warm-up"}" of the schedule is never reached: it would begin with ${unit} ${
        from + 1
      }, and the run ends with ${unit} ${total}`
    ),
  ];
}

/** A mistake in the text of --scheduler is found before the data is opened. */
export function checkScheduler({ training }: Pick<Config, "training">): void {
  const { scheduler, epochs } = training;
  if (!isWritten(scheduler.type) && PLAIN.includes(scheduler.type)) return;
  const run = { total: 1000, epochs, stepsPerEpoch: 1000, byEpoch: scheduler.per === "epoch" };
  const plan: BatchPlan = { micro: 1, accumulation: 1, global: 1, stepsPerEpoch: 1000, note: "" };
  const rows: Facts = { task: "regression", input: { shape: [1], dtype: "f32" }, outputs: 1 };
  const { ticks } = clockOf({ ...training, scheduler: { ...scheduler, per: "step" } }, plan, rows);
  const written = stretchesOf(scheduler.type);
  for (const one of written) {
    if (one.length !== null) lengthOf(one, scheduler.type, ticks);
    KINDS[one.name].open(one.call, {
      ...{ base: 1, span: 1000, begun: 0, before: null, ticks, scheduler, run },
    });
  }
}
