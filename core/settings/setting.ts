// Declares settings, and reads durations with units (500steps, 1ep, 10min, 2e9tok).

type SettingKind = "int" | "float" | "bool" | "text" | "choice" | "list" | "duration" | "path";

/** Flags, checks, help, schema and docs are made from it. */
export interface Setting<V = unknown> {
  readonly kind: SettingKind;
  readonly default: V;
  readonly help: string;
  /** It tells what a stand-in means, e.g. "no limit" for 0. Such a setting may be null in YAML. */
  readonly empty?: string;
  /** `--flag`; bools and choices with `no` also answer to `--no-flag`. */
  readonly flag?: string;
  /** Other programs' flags mean the same, one to one. They have no dashes. */
  readonly spellings?: readonly string[];
  /** Each stands for one value: { "wandb-online": "online" }. */
  readonly shortcuts?: Readonly<Record<string, V>>;
  /** A choice that users know as a switch takes `true`, `false`, `--no-flag` and the flag alone, at the end or before another, as these. */
  readonly yes?: V;
  readonly no?: V;
  /** Checkpoints of older versions have these texts for its values. */
  readonly once?: Readonly<Record<string, V>>;
  /** Runs of older versions, whose checkpoints lack it, did this. */
  readonly before?: V;
  /** Its flag alone means `yes`; another value follows an equals sign. */
  readonly bare?: boolean;
  /** It stands between a list's items where they are one text; such a flag may be given again, and adds. */
  readonly separator?: ";" | ",";
  /** These spell the whole path in YAML and `--set`. */
  readonly aliases?: readonly string[];
  /**
   * Job scripts have these variables without a prefix: EPOCHS. Each that is set is used and named in the log,
   * or refused.
   */
  readonly plain?: readonly string[];
  /** Other programs' variables come after our own. */
  readonly env?: readonly string[];
  readonly min?: number;
  readonly max?: number;
  /** `min` (`max`) itself is outside of the range. */
  readonly above?: boolean;
  readonly below?: boolean;
  readonly choices: readonly string[];
  /** Other programs have these words for the choices: { "bf16-mixed": "bf16" }. A number may have a word, too. */
  readonly words?: Readonly<Record<string, V>>;
  /** The page of settings shows a line about each choice. */
  readonly about?: Readonly<Record<string, string>>;
  /** Each word that is not available here has a sentence about what is. */
  readonly unlike?: Readonly<Record<string, string>>;
  /** The choice may also be a file of this name, or a text of this form. */
  readonly orFile?: { readonly regex: RegExp; readonly says: string };
  /** The choice may also be a text like this one, which whoever uses it reads. */
  readonly orText?: { readonly regex: RegExp; readonly says: string };
  /** A bare number has the first unit. */
  readonly units: readonly DurationUnit[];
  /** `says` puts the pattern into words, `unlike` tells what fits a text that does not; an empty text always fits. */
  readonly pattern?: {
    readonly regex: RegExp;
    readonly says: string;
    readonly unlike?: (text: string) => string;
  };
  readonly common?: boolean;
  /** Without this part of the program there is no such setting. */
  readonly part?: string;
}

export interface SettingGroup {
  readonly [key: string]: Setting | SettingGroup;
}

/**
 * The plain-data type of a tree of settings.
 * @internal
 */
export type ConfigOf<T> = { -readonly [K in keyof T]: T[K] extends Setting<infer V> ? V : ConfigOf<T[K]> };

type Declaration<V> = Omit<Setting<V>, "kind" | "default" | "choices" | "units">;

type Range = Pick<Setting, "min" | "max" | "above" | "below">;

export function isSetting(node: Setting | SettingGroup): node is Setting {
  return typeof node.kind === "string" && typeof node.help === "string";
}

const declare = <V>(
  kind: SettingKind,
  initial: V,
  more: Declaration<V> & Partial<Pick<Setting, "choices" | "units">>,
): Setting<V> => ({ kind, default: initial, choices: [], units: [], ...more });

export const int = (initial: number, more: Declaration<number> & Range) => declare("int", initial, more);

export const float = (initial: number, more: Declaration<number> & Range) => declare("float", initial, more);

export const bool = (initial: boolean, more: Declaration<boolean>) => declare("bool", initial, more);

export const text = (initial: string, more: Declaration<string>) => declare("text", initial, more);

export const path = (initial: string, more: Declaration<string>) => declare("path", initial, more);

/** With `choices` each item is one of them. */
export const list = (more: Declaration<string[]> & Partial<Pick<Setting, "choices">>) =>
  declare("list", [], more);

export const choice = <const C extends string>(
  choices: readonly C[],
  initial: NoInfer<C>,
  more: Declaration<NoInfer<C>>,
): Setting<C> => declare<C>("choice", initial, { ...more, choices });

export const duration = (initial: string, units: readonly DurationUnit[], more: Declaration<string>) =>
  declare("duration", initial, { ...more, units });

type DurationUnit = "steps" | "epochs" | "tokens" | "samples" | "seconds";

interface Duration {
  readonly count: number;
  readonly unit: DurationUnit;
}

const SPELLINGS = new Map<string, readonly [DurationUnit, number]>([
  ...["step", "steps"].map((name) => [name, ["steps", 1]] as const),
  ...["ep", "epoch", "epochs"].map((name) => [name, ["epochs", 1]] as const),
  ...["tok", "tokens"].map((name) => [name, ["tokens", 1]] as const),
  ["samples", ["samples", 1]],
  ...["s", "sec", "seconds"].map((name) => [name, ["seconds", 1]] as const),
  ...["min", "minutes"].map((name) => [name, ["seconds", 60]] as const),
  ...["h", "hours"].map((name) => [name, ["seconds", 3600]] as const),
  ["d", ["seconds", 86400]],
]);

export const UNIT_EXAMPLES: Record<DurationUnit, string> = {
  steps: "500steps",
  epochs: "1ep",
  tokens: "2e9tok",
  samples: "1e6samples",
  seconds: "10min",
};

export const UNIT_SUFFIX: Record<DurationUnit, string> = {
  steps: "steps",
  epochs: "ep",
  tokens: "tok",
  samples: "samples",
  seconds: "s",
};

const SHAPE = /^(\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*([a-z]*)$/i;

/**
 * Null means that the text is no duration; a bare number takes the unit `bare`, and so does "0" of any unit.
 */
export function parseDuration(text: string, bare: DurationUnit = "steps"): Duration | null {
  const match = SHAPE.exec(text.trim());
  if (!match) return null;
  const [unit, scale] = match[2] === "" ? [bare, 1] as const : SPELLINGS.get(match[2].toLowerCase()) ?? [];
  if (!unit || !scale) return null;
  const count = Number(match[1]) * scale;
  return Number.isFinite(count) ? { count, unit } : null;
}

/** The check of the settings has seen `text`. */
export function checkedDuration(text: string, bare?: DurationUnit): Duration {
  const key = `${text} ${bare}`;
  let duration = known.get(key) ?? null;
  if (duration !== null) return duration;
  duration = parseDuration(text, bare);
  if (duration === null) throw new Error(`internal: ${text} is no duration.`);
  known.set(key, duration);
  return duration;
}

/** A run asks for the same few at the end of each epoch. */
const known = new Map<string, Duration>();
