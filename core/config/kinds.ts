// What a setting is, and the small constructors it is declared with. Imports nothing of ours but durations.
import type { Unit } from "./duration.ts";

export type Kind = "int" | "float" | "bool" | "text" | "choice" | "list" | "duration" | "path";

/** Everything there is to know about one setting; flags, checks, help, schema and docs are made from it. */
export interface Setting<V = unknown> {
  readonly kind: Kind;
  readonly default: V;
  readonly help: string;
  /** What the default means when it is a stand-in, e.g. "no limit" for 0. Such a setting may be null in YAML. */
  readonly empty?: string;
  /** `--flag`; bools and choices with `no` also answer to `--no-flag`. */
  readonly flag?: string;
  /** Flags of other programs that mean the same, one to one: Lightning's, Hugging Face's, torchrun's. Without dashes. */
  readonly spellings?: readonly string[];
  /** Flags that stand for one value of this setting, e.g. { "wandb-online": "online" }. */
  readonly shortcuts?: Readonly<Record<string, V>>;
  /** The value `true` / `false` (and `--no-flag`) stand for, in a choice that users know as a switch. */
  readonly yes?: V;
  readonly no?: V;
  /** True when its flag alone means `yes`, and another value follows an equals sign, as with a bool's. */
  readonly bare?: boolean;
  /** Other YAML and `--set` spellings of the whole path. */
  readonly aliases?: readonly string[];
  /** Variables without a prefix, as job scripts have them: EPOCHS. Each that is set is used and said, or refused. */
  readonly plain?: readonly string[];
  /** Variables of other programs that also set it, after our own. */
  readonly env?: readonly string[];
  readonly min?: number;
  readonly max?: number;
  /** True when `min` (`max`) itself is outside of the range. */
  readonly above?: boolean;
  readonly below?: boolean;
  readonly choices?: readonly string[];
  /** Other programs' words for the choices: { "bf16-mixed": "bf16" }. */
  readonly words?: Readonly<Record<string, V>>;
  /** Words that mean what is not to be had here -> a sentence about what there is. */
  readonly unlike?: Readonly<Record<string, string>>;
  /** A choice that may also be the name of a file that looks like this. */
  readonly orFile?: { readonly regex: RegExp; readonly says: string };
  /** Units a duration may carry; a bare number has the first. */
  readonly units?: readonly Unit[];
  /** What a text must look like, and how to say so; an empty text is always good. */
  readonly pattern?: { readonly regex: RegExp; readonly says: string };
  /** Shown by the short `train --help`. */
  readonly common?: boolean;
}

/** A file of the user's own code. */
export const CODE_FILE = { regex: /\.(ts|mts|js|mjs)$/, says: "a TypeScript file" };

export interface Group {
  readonly [key: string]: Setting | Group;
}

/**
 * The plain-data type of a tree of settings.
 * @internal
 */
export type ConfigOf<T> = { -readonly [K in keyof T]: T[K] extends Setting<infer V> ? V : ConfigOf<T[K]> };

type Declaration<V> = Omit<Setting<V>, "kind" | "default" | "choices" | "units">;
type Range = Pick<Setting, "min" | "max" | "above" | "below">;

export function isSetting(node: Setting | Group): node is Setting {
  return typeof (node as Setting).kind === "string" && typeof (node as Setting).help === "string";
}

export const int = (initial: number, more: Declaration<number> & Range): Setting<number> => ({
  kind: "int",
  default: initial,
  ...more,
});

export const float = (initial: number, more: Declaration<number> & Range): Setting<number> => ({
  kind: "float",
  default: initial,
  ...more,
});

export const bool = (initial: boolean, more: Declaration<boolean>): Setting<boolean> => ({
  kind: "bool",
  default: initial,
  ...more,
});

export const text = (initial: string, more: Declaration<string>): Setting<string> => ({
  kind: "text",
  default: initial,
  ...more,
});

export const path = (initial: string, more: Declaration<string>): Setting<string> => ({
  kind: "path",
  default: initial,
  ...more,
});

export const list = (more: Declaration<string[]>): Setting<string[]> => ({
  kind: "list",
  default: [],
  ...more,
});

export function choice<const C extends string>(
  choices: readonly C[],
  initial: NoInfer<C>,
  more: Declaration<NoInfer<C>>,
): Setting<C> {
  return { kind: "choice", default: initial, choices, ...more };
}

export const duration = (
  initial: string,
  units: readonly Unit[],
  more: Declaration<string>,
): Setting<string> => ({ kind: "duration", default: initial, units, ...more });
