// The law of a stretch of the schedule: its rate from step to step, and torch's scheduler with the same numbers. Its arguments have
// torch's names, and are read from a text such as `cosine(T_max=10ep, eta_min=1e-6)`.
import { type Call, isCall, type Value } from "../../base/calls.ts";
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import { didYouMean, sameName } from "../../base/suggest.ts";
import type { Config } from "../../settings/settings.ts";
import type { Plateau } from "../../checkpoint/training_state.ts";

/** A tick is a step, or an epoch with --schedule-per epoch. */
export interface Law {
  /** Torch's class with this state. */
  readonly torch: string;
  /**
   * The rate at tick `i` of the stretch. `before` is that of the tick before it, from which torch computes some; `plateau` is what
   * the evaluations came to.
   */
  rate(i: number, before: number, plateau: Plateau | undefined): number;
  /** Each rate comes from the one before. */
  readonly recursive?: true;
  /** Momentum, or beta1, goes the other way. */
  momentum?(i: number): number;
  /** The numbers that torch's scheduler has at tick `i`, beside those that all of them have. */
  state(i: number, groups: Groups): State;
  /** Its base_lrs. */
  readonly base: number;
  /** It leaves these in the optimizer's groups: rates, of which a group has its share, and other numbers. */
  readonly rates?: Readonly<Record<string, number>>;
  readonly numbers?: Readonly<Record<string, number>>;
  /** Present where evaluations decide. */
  readonly plateau?: PlateauRule;
}

export type State = Readonly<Record<string, unknown>>;

export interface Groups {
  /** A rate as each group of parameters has it. */
  each(rate: number): number[];
  /** The number of groups. */
  readonly count: number;
  /** Adam's first beta is its momentum. */
  readonly usesBeta: boolean;
}

export interface PlateauRule {
  readonly mode: "min" | "max" | null;
  judge(before: Plateau, value: number, mode: "min" | "max"): Plateau;
  begin(mode: "min" | "max"): Plateau;
}

/** A law is made for this. */
export interface Room {
  /** The highest rate, after scaling. */
  readonly base: number;
  /** Ticks of the stretch, and those before it. */
  readonly span: number;
  readonly begun: number;
  /** The rate to which the stretch before this one has come; null in the first. */
  readonly before: number | null;
  /** "30ep" in ticks. */
  ticks(text: string): number;
  readonly scheduler: Config["training"]["scheduler"];
  /** A function of the user's is told this of the run. */
  readonly run: {
    readonly total: number;
    readonly epochs: number;
    readonly stepsPerEpoch: number;
    readonly byEpoch: boolean;
  };
}

/** A kind of schedule, by its name. */
export interface Kind {
  readonly arguments: Spec;
  open(call: Call, room: Room): Law;
}

/** An argument reads a value or gives undefined, where it is none of those that `says` names. */
interface Argument<T = unknown> {
  readonly says: string;
  read(value: Value, room: Room): T | undefined;
  /** Absent where it has to be given. */
  readonly initial?: (room: Room) => T;
}

export type Spec = Readonly<Record<string, Argument>>;

type ValuesOf<S extends Spec> = {
  readonly [K in keyof S]: S[K] extends Argument<infer T> ? T : never;
};

interface Range {
  readonly min?: number;
  readonly max?: number;
  /** These are outside of the range themselves. */
  readonly above?: boolean;
  readonly below?: boolean;
}

const within = (n: number, { min = -Infinity, max = Infinity, above, below }: Range): boolean =>
  (above ? n > min : n >= min) && (below ? n < max : n <= max);

function saysRange({ min = -Infinity, max = Infinity, above, below }: Range): string {
  const from = min === -Infinity ? "" : ` ${above ? "above" : "from"} ${min}`;
  const to = max === Infinity
    ? min > -Infinity && !above ? " on" : ""
    : ` ${below ? "below" : "up to"} ${max}`;
  return `a number${from}${from !== "" && max < Infinity ? (above || below ? " and" : "") : ""}${to}`;
}

const made = <T>(
  says: string,
  read: (value: Value, room: Room) => T | undefined,
  initial?: T | ((room: Room) => T),
): Argument<T> => ({
  ...{ says, read },
  ...(initial !== undefined &&
    { initial: typeof initial === "function" ? initial as (room: Room) => T : () => initial }),
});

export const number = (range: Range, initial?: number | ((room: Room) => number)): Argument<number> =>
  made(
    saysRange(range),
    (value) => typeof value === "number" && within(value, range) ? value : undefined,
    initial,
  );

const oneCount = (value: Value, least: number, room: Room): number | undefined => {
  const ticks = typeof value === "string" ? room.ticks(value) : value;
  return typeof ticks === "number" && Number.isSafeInteger(ticks) && ticks >= least ? ticks : undefined;
};

/** A number of ticks. */
export const count = (initial?: number | ((room: Room) => number), least = 1): Argument<number> =>
  made(
    `a whole number of steps from ${least} on, or 30ep`,
    (value, room) => oneCount(value, least, room),
    initial,
  );

/** A number of something else, which has no unit. */
export const whole = (initial: number, least = 0): Argument<number> =>
  made(
    `a whole number from ${least} on`,
    (value) => typeof value === "number" && Number.isSafeInteger(value) && value >= least ? value : undefined,
    initial,
  );

export const counts = (): Argument<readonly number[]> =>
  made("rising whole numbers of steps, such as [30ep, 80ep]", (value, room) => {
    const items: readonly Value[] = Array.isArray(value) ? value : [value as Value];
    const ticks = items.map((one) => oneCount(one, 1, room));
    const rise = ticks.every((one, i) => one !== undefined && (i === 0 || one >= ticks[i - 1]!));
    return ticks.length > 0 && rise ? ticks as number[] : undefined;
  });

export const word = <const W extends string>(
  words: readonly W[],
  initial: NoInfer<W> | null,
): Argument<W | null> =>
  made<W | null>(
    `one of ${words.join(", ")}`,
    (value) => words.find((one) => one === value),
    () => initial,
  );

export const flag = (initial: boolean): Argument<boolean> =>
  made("true or false", (value) => typeof value === "boolean" ? value : undefined, initial);

export const file = (says: string, like: RegExp): Argument<string> =>
  made(says, (value) => typeof value === "string" && like.test(value) ? value : undefined);

/** By their names or their places, as in Python; what is left out has its default. */
export function argumentsOf<const S extends Spec>(spec: S, call: Call, room: Room): ValuesOf<S> {
  const names = Object.keys(spec),
    refuse = (what: string): never => {
      throw new UserError("usage", `--scheduler ${call.text}: ${what}`);
    };
  const takes = names.length === 0 ? "It takes none." : `It takes ${names.join(", ")}.`;
  if (call.values.length > names.length) {
    refuse(
      `${call.name} takes ${formatPlural(names.length, "argument")}, and got ${call.values.length}. ${takes}`,
    );
  }
  const given = new Map<string, Value>(call.values.map((value, i) => [names[i], value]));
  for (const [name, value] of call.named) {
    const known = Object.hasOwn(spec, name) ? name : sameName(name, names);
    if (known === undefined) {
      refuse(`${call.name} has no argument ${name}.${didYouMean(name, names)} ${takes}`);
    }
    if (given.has(known!)) refuse(`${known} is given twice.`);
    given.set(known!, value);
  }
  const read = (name: string) => {
    const { says, read, initial } = spec[name];
    if (!given.has(name)) {
      if (!initial) refuse(`${call.name} needs ${name}, ${says}: ${call.name}(${name}=...).`);
      return initial!(room);
    }
    const value = read(given.get(name)!, room);
    return value === undefined
      ? refuse(`${name} must be ${says}, but got ${shown(given.get(name)!)}.`)
      : value;
  };
  return Object.fromEntries(names.map((name) => [name, read(name)])) as ValuesOf<S>;
}

const shown = (value: Value): string =>
  Array.isArray(value)
    ? `[${value.map(shown).join(", ")}]`
    : typeof value === "object" && value !== null && isCall(value as Value)
    ? (value as Call).text
    : String(value);

/** By its name or its place. */
export const isGiven = (call: Call, name: string, spec: Spec): boolean =>
  call.named.has(name) || call.values.length > Object.keys(spec).indexOf(name);
