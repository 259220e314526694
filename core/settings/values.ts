// Checks values of settings, notes where each comes from, and collects mistakes so that all are reported at
// once.
import { valuesWithoutSecrets } from "../base/secrets.ts";
import { UserError } from "../base/errors.ts";
import { parseDuration, type Setting, UNIT_EXAMPLES, UNIT_SUFFIX } from "./setting.ts";
import { didYouMean, sameName } from "../base/suggest.ts";
import { ALL_SETTINGS, type Declared, findSetting, readSetting, writeSetting } from "./settings.ts";

/** A file with more mistakes than this is another kind of file. */
const MOST = 20;

export class Mistakes {
  readonly #found: UserError[] = [];
  #full = false;

  /** A usage error of `read` is collected, and gives undefined. Other errors pass at once. */
  try<T>(read: () => T): T | undefined {
    try {
      return read();
    } catch (error) {
      if (this.#full || !(error instanceof UserError) || error.kind !== "usage") throw error;
      if (!this.#found.some(({ message }) => message === error.message)) this.#found.push(error);
      this.#full = this.#found.length === MOST;
      if (this.#full) this.refuse();
    }
  }

  refuse(): void {
    const [first, ...more] = this.#found;
    if (first === undefined) return;
    if (more.length === 0) throw first;
    const list = this.#found.map(({ message }) => `\n  ${message}`).join("");
    const many = `${this.#found.length} mistakes${this.#full ? ", or more" : ""}`;
    throw new UserError("usage", `The configuration has ${many}.${list}`);
  }
}

/** The lowest layer comes first. */
export type Origin =
  | { readonly kind: "default" }
  | { readonly kind: "preset"; readonly name: string }
  | { readonly kind: "recipe"; readonly name: string }
  | { readonly kind: "site"; readonly name: string }
  | { readonly kind: "checkpoint" }
  | { readonly kind: "file"; readonly name: string; readonly line: number; readonly column: number }
  | { readonly kind: "environment"; readonly name: string }
  | { readonly kind: "flag"; readonly name: string; readonly key?: string };

export type FlagOrigin = Origin & { readonly kind: "flag" };
export const flagOrigin = (name: string): FlagOrigin => ({ kind: "flag", name: `--${name}` });
export const setOrigin = (key: string): FlagOrigin => ({ kind: "flag", name: "--set", key });

/** Gives "default", "preset cpu", "run.yaml:12:5", "env HPCTRAIN_LR", "--lr". */
export function formatOrigin(origin: Origin): string {
  switch (origin.kind) {
    case "default":
    case "checkpoint":
      return origin.kind;
    case "preset":
    case "recipe":
    case "site":
      return `${origin.kind} ${origin.name}`;
    case "file":
      return `${origin.name}:${origin.line}:${origin.column}`;
    case "environment":
      return `env ${origin.name}`;
    case "flag":
      return origin.key === undefined ? origin.name : `${origin.name} ${origin.key}`;
  }
}

/** A setting's value in a sentence about it: who gave it, and how it is overridden. */
export interface SettingChoice {
  /** "--distributed-backend mpi", or "distributed.backend mpi (preset cpu-cluster)". */
  readonly by: string;
  /** Ends "..., or ": "leave it out", "give --distributed-backend auto". */
  readonly undo: string;
}

export function settingChoice(path: string, value: unknown, from?: Origin): SettingChoice {
  const { flag, default: initial } = findSetting(path)!.setting;
  if (from === undefined) return { by: `${path} ${value}`, undo: `set it to ${initial}` };
  if (from.kind === "flag" && from.key === undefined) {
    return { by: `${from.name} ${value}`, undo: "leave it out" };
  }
  const undo = flag ? `give --${flag} ${initial}` : `give --set ${path}=${initial}`;
  return { by: `${path} ${value} (${formatOrigin(from)})`, undo };
}

export const isTyped = ({ kind }: Origin): boolean =>
  kind === "recipe" || kind === "file" || kind === "environment" || kind === "flag";

export interface Assignment {
  readonly path: string;
  readonly value: unknown;
  readonly origin: Origin;
  /** The value follows from the one that has this origin: nobody wrote it. */
  readonly implied?: boolean;
  readonly unitless?: boolean;
}

const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;
const YES = ["true", "yes", "on", "1"];
const NO = ["false", "no", "off", "0"];

export function fromText(declared: Declared, text: string, origin: Origin): Assignment {
  const { kind } = declared.setting;
  const word = text.trim();
  if ((kind === "int" || kind === "float") && NUMBER.test(word)) {
    return fromData(declared, Number(word), origin);
  }
  if (kind === "list") return fromData(declared, itemsOf(declared.setting, word), origin);
  return fromData(declared, text, origin);
}

export function fromData(declared: Declared, given: unknown, origin: Origin): Assignment {
  const { path, setting } = declared;
  const value = convert(setting, given);
  if (value === undefined) throw refusal(declared, given, origin);
  const unitless = setting.kind === "duration" && value !== "0" && NUMBER.test(String(given).trim());
  return unitless ? { path, value, origin, unitless } : { path, value, origin };
}

/** A number that has a word is written as the word. */
export function asWritten({ setting: { kind, words = {} } }: Declared, value: unknown): unknown {
  const word = kind === "int" ? Object.keys(words).find((word) => words[word] === value) : undefined;
  return word ?? value;
}

export function asWrittenAll(config: object, among: readonly Declared[] = ALL_SETTINGS): object {
  const values = {};
  for (const one of among) writeSetting(values, one.path, asWritten(one, readSetting(config, one.path)));
  return values;
}

/** Gives "a whole number from 1 to 10". */
export function expected(setting: Setting): string {
  switch (setting.kind) {
    case "int":
      return [`a whole number ${range(setting)}`.trim(), ...Object.keys(setting.words ?? {})].join(", or ");
    case "float":
      return `a number ${range(setting)}`.trim();
    case "bool":
      return "true or false";
    case "choice":
      return `one of ${setting.choices.join(", ")}${setting.orText ? `, ${setting.orText.says}` : ""}${
        setting.orFile ? `, or ${setting.orFile.says}` : ""
      }`;
    case "duration":
      return `a duration such as ${setting.units.map((unit) => UNIT_EXAMPLES[unit]).join(" or ")}`;
    case "list":
      return setting.choices.length > 0
        ? `one or more of ${setting.choices.join(", ")}, with commas between them`
        : setting.separator
        ? "a list, or text with semicolons"
        : "a list, or text with commas";
    case "path":
      return setting.pattern?.says ?? "a path";
    case "text":
      return setting.pattern?.says ?? "text";
  }
}

function range({ min, max, above, below }: Setting): string {
  if (min === undefined || max === undefined) return "";
  if (above || below) {
    return `${above ? "above" : "from"} ${short(min)} and ${below ? "below" : "up to"} ${short(max)}`;
  }
  return `from ${short(min)} to ${short(max)}`;
}

function short(bound: number): string {
  return bound >= 1e6 && Number.isInteger(Math.log10(bound))
    ? bound.toExponential().replace("+", "")
    : String(bound);
}

function convert(setting: Setting, given: unknown): unknown {
  if (given === null) return setting.empty === undefined ? undefined : setting.default;
  switch (setting.kind) {
    case "int":
      if (Object.hasOwn(setting.words ?? {}, String(given).trim())) {
        return setting.words![String(given).trim()];
      }
      return isNumber(given) && Number.isSafeInteger(given) && inRange(setting, given) ? given : undefined;
    case "float":
      return isNumber(given) && Number.isFinite(given) && inRange(setting, given) ? given : undefined;
    case "bool":
      return toBool(given);
    case "choice":
      return toChoice(setting, given);
    case "duration":
      return toDuration(setting, given);
    case "list":
      return toList(setting, given);
    case "path":
    case "text":
      return toText(setting, given);
  }
}

const isNumber = (value: unknown): value is number => typeof value === "number";

function inRange({ min = -Infinity, max = Infinity, above, below }: Setting, value: number): boolean {
  return (above ? value > min : value >= min) && (below ? value < max : value <= max);
}

function toBool(given: unknown): boolean | undefined {
  if (typeof given === "boolean") return given;
  if (typeof given !== "string") return undefined;
  const word = given.trim().toLowerCase();
  return YES.includes(word) ? true : NO.includes(word) ? false : undefined;
}

function toChoice(setting: Setting, given: unknown): unknown {
  const word = typeof given === "string" ? given.trim() : given;
  if (typeof word === "string" && setting.choices.includes(word)) return word;
  const { words } = setting;
  if (words && Object.hasOwn(words, String(word))) return words[String(word)];
  if (typeof word === "string" && [setting.orFile, setting.orText].some((or) => or?.regex.test(word))) {
    return word;
  }
  const known = setting.no === undefined ? undefined : toBool(word);
  if (known !== undefined) return known ? setting.yes : setting.no;
  return typeof word === "string" && setting.unlike?.[word] === undefined
    ? sameName(word, setting.choices)
    : undefined;
}

function toDuration(setting: Setting, given: unknown): string | undefined {
  if (typeof given !== "string" && typeof given !== "number") return undefined;
  const word = String(given).trim();
  const units = setting.units;
  const duration = parseDuration(word, units[0]);
  if (!duration || !units.includes(duration.unit)) return undefined;
  if (duration.count === 0) return "0";
  return NUMBER.test(word) ? word + UNIT_SUFFIX[units[0]] : word.replaceAll(" ", "");
}

const itemsOf = ({ separator = "," }: Setting, text: string): string[] => text.split(separator);

function toList(setting: Setting, given: unknown): string[] | undefined {
  const { choices } = setting;
  const items = Array.isArray(given) ? given : typeof given === "string" ? itemsOf(setting, given) : [given];
  if (!items.every((item) => typeof item === "string" || typeof item === "number")) return undefined;
  const words = items.map((item) => String(item).trim()).filter((item) => item !== "");
  return choices.length === 0 || words.every((word) => choices.includes(word)) ? words : undefined;
}

function toText(setting: Setting, given: unknown): string | undefined {
  if (typeof given !== "string" && typeof given !== "number") return undefined;
  const word = String(given);
  // deno-lint-ignore no-control-regex
  if (/[\u0000-\u001f]/.test(word)) return undefined;
  return word === "" || !setting.pattern || setting.pattern.regex.test(word) ? word : undefined;
}

function refusal({ path, setting }: Declared, given: unknown, origin: Origin): UserError {
  // Who typed a flag has not seen the setting's path.
  const named = origin.kind === "flag" && origin.name.startsWith("--") && origin.key === undefined;
  const flag = setting.flag ? ` (--${setting.flag})` : "";
  const unlike = setting.unlike?.[String(given).trim()] ?? unlikePattern(setting, given);
  const hint = unlike
    ? ` ${unlike}`
    : setting.kind === "choice" && typeof given === "string"
    ? didYouMean(given, [...setting.choices, ...Object.keys(setting.words ?? {})])
    : setting.kind === "list" && setting.choices.length > 0
    ? unknownItem(setting, given)
    : typeof given === "string" && NUMBER.test(given) && (setting.kind === "int" || setting.kind === "float")
    ? " Remove the quotes to make it a number."
    : "";
  return new UserError(
    "usage",
    `${named ? origin.name : `${formatOrigin(origin)}: ${path}${flag}`} must be ${
      expected(setting)
    }, but got ${shownValue(given)}.${hint}`,
  );
}

const unlikePattern = ({ pattern }: Setting, given: unknown): string | undefined =>
  typeof given === "string" && !pattern?.regex.test(given) ? pattern?.unlike?.(given) : undefined;

function unknownItem({ choices }: Setting, given: unknown): string {
  const words = (Array.isArray(given) ? given : [given]).map((word) => String(word).trim());
  return didYouMean(words.find((word) => !choices.includes(word)) ?? "", choices);
}

export function shownValue(given: unknown): string {
  if (given === undefined || given === null) return "no value";
  if (typeof given === "number") return String(given);
  const json = JSON.stringify(valuesWithoutSecrets(given));
  return json.length > 80 ? json.slice(0, 77) + "..." : json;
}
