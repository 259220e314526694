// A search space: which settings a search varies, and between which values; from flags with several values, or from
// a YAML file. Pure but for reading the file.
import { LineCounter, parseDocument } from "../../../deps/yaml.ts";
import { UserError } from "../../base/errors.ts";
import { didYouMean } from "../../base/suggest.ts";
import { readText } from "../../settings/yaml.ts";
import { type Declared, findSetting, FLAGS, hintForPath } from "../../settings/settings.ts";
import { fromText, setOrigin } from "../../settings/values.ts";
import { isLogarithmic, NOT_SWEPT, type SweepAxis } from "./axes.ts";

interface Named {
  /** As the user has written it. */
  readonly name: string;
  /** The setting. */
  readonly path: string;
  /** This is "--lr=" or "--set=model.hidden_size=", and a value follows. */
  readonly before: string;
}

export type SearchDimension =
  & Named
  & (
    | { readonly kind: "float" | "int"; readonly low: number; readonly high: number; readonly log: boolean }
    | { readonly kind: "choice"; readonly choices: readonly string[] }
  );

export function spaceOfAxes(axes: readonly SweepAxis[]): SearchDimension[] {
  return axes.map(({ name, path, before, choices, range, setting }): SearchDimension =>
    range === null ? { name, path, before, kind: "choice", choices } : {
      name,
      path,
      before,
      kind: setting.kind === "int" ? "int" : "float",
      ...range,
      log: isLogarithmic(range),
    }
  );
}

/** The file's settings, and those of the flags. */
export function joinedSpace(
  file: readonly SearchDimension[],
  flags: readonly SearchDimension[],
): SearchDimension[] {
  const twice = flags.find(({ path }) => file.some((other) => other.path === path));
  if (!twice) return [...file, ...flags];
  throw new UserError(
    "usage",
    `${twice.before.slice(0, -1)} is in the file's space too: give it in one place.`,
  );
}

/** The words of a value: four digits are enough, and the run has exactly those. */
export function wordOf(dimension: SearchDimension, value: number): string {
  if (dimension.kind === "choice") return dimension.choices[value];
  const { low, high } = dimension;
  const rounded = dimension.kind === "int" ? Math.round(value) : Number(value.toPrecision(4));
  const inside = Math.min(Math.max(rounded, low), high);
  return inside !== 0 && Math.abs(inside) < 1e-3 ? inside.toExponential() : String(inside);
}

/** The value that `word` stands for: a number, or the index of a choice. */
export const valueOf = (dimension: SearchDimension, word: string): number =>
  dimension.kind === "choice" ? dimension.choices.indexOf(word) : Number(word);

/** `u` is in [0, 1). */
export function dimensionValue(dimension: SearchDimension, u: number): number {
  if (dimension.kind === "choice") return Math.floor(u * dimension.choices.length);
  const { low, high, log, kind } = dimension, margin = kind === "int" ? 0.5 : 0;
  const from = low - margin, to = high + margin;
  const value = log ? from * (to / from) ** u : from + (to - from) * u;
  return kind === "int" ? Math.min(Math.max(Math.round(value), low), high) : value;
}

// The file.

export interface SearchFile {
  readonly space: readonly SearchDimension[];
  /** The file's other keys, as words: those of the flags of the same name. */
  readonly options: Readonly<Partial<Record<OptionKey, string>>>;
}

const OPTIONS = ["search", "max-runs", "parallel", "metric", "goal", "first-rung", "reduce", "name"] as const;
type OptionKey = (typeof OPTIONS)[number];

export const readSearchFile = (path: string): SearchFile => parseSearchFile(readText(path), path);

export function parseSearchFile(text: string, file: string): SearchFile {
  const content = contentOf(text, file);
  const keys = ["space", ...OPTIONS];
  const options: Partial<Record<OptionKey, string>> = {};
  for (const [typed, value] of Object.entries(content)) {
    const key = typed.replaceAll("_", "-");
    if (key === "space") continue;
    if (!keys.includes(key)) {
      const hint = findSetting(typed) || FLAGS.has(key)
        ? " It is a setting of the runs: give it as a flag, or below space: to search it."
        : didYouMean(key, keys) || ` A search has ${keys.join(", ")}.`;
      throw refused(`${file}: unknown key "${typed}".${hint}`);
    }
    if (typeof value !== "string" && typeof value !== "number") {
      throw refused(`${file}: ${typed} should be one word or number, but got ${JSON.stringify(value)}.`);
    }
    options[key as OptionKey] = String(value);
  }
  return { options, space: readSpace(content.space, file) };
}

function contentOf(text: string, file: string): Record<string, unknown> {
  const lineCounter = new LineCounter();
  let document;
  try {
    document = parseDocument(text, { lineCounter, prettyErrors: false, schema: "core", version: "1.2" });
  } catch (cause) {
    throw new UserError("usage", `${file}: not readable as YAML: it nests too deep.`, { cause });
  }
  const [problem] = document.errors;
  if (problem) {
    const { line, col } = lineCounter.linePos(problem.pos[0]);
    throw refused(`${file}:${line}:${col}: not readable as YAML: ${problem.message.replace(/\.?$/, ".")}`);
  }
  let content: unknown;
  try {
    content = document.toJS({ maxAliasCount: 100 });
  } catch (cause) {
    throw new UserError("usage", `${file}: its aliases (*name) expand to too much: write the values out.`, {
      cause,
    });
  }
  if (!isRecord(content)) {
    throw refused(`${file}: a search file begins with "space:" and the settings below it.`);
  }
  return content;
}

function readSpace(space: unknown, file: string): SearchDimension[] {
  if (space === undefined) return [];
  if (!isRecord(space) || Object.keys(space).length === 0) {
    throw refused(`${file}: space should hold settings, such as "lr: {log: [1e-5, 1e-1]}".`);
  }
  const declared = Object.keys(space).map((key) => ({ key, found: settingOf(key, file) }));
  return declared.map(({ key, found }, i) => {
    const twice = declared.findIndex((other) => other.found.path === found.path);
    if (twice !== i) {
      throw refused(`${file}: space has ${found.path} twice: as ${declared[twice].key} and as ${key}.`);
    }
    const named = { name: key, path: found.path, before: `--set=${found.path}=` };
    return dimensionOf(named, space[key], { where: `${file}: space.${key}`, declared: found });
  });
}

function settingOf(key: string, file: string): Declared {
  const declared = FLAGS.get(key.replaceAll("_", "-"))?.declared ?? findSetting(key);
  if (!declared) throw refused(`${file}: space has an unknown setting "${key}".${hintForPath(key)}`);
  const why = Object.hasOwn(NOT_SWEPT, declared.path)
    ? NOT_SWEPT[declared.path]
    : declared.path.startsWith("cluster.")
    ? "it is about the job, and all runs are jobs of one array"
    : null;
  if (why !== null) throw refused(`${file}: space can't have ${key}: ${why}.`);
  return declared;
}

interface Place {
  readonly where: string;
  readonly declared: Declared;
}

const KINDS = ["log", "uniform", "int", "choice"] as const;
const CONDITIONS = ["if", "when", "condition", "conditions", "parent", "depends_on", "only_if"];

function dimensionOf(named: Named, given: unknown, place: Place): SearchDimension {
  const { where, declared: { setting } } = place;
  if (!isRecord(given)) {
    throw refused(
      `${where} should be one of {log: [LOW, HIGH]}, {uniform: [LOW, HIGH]}, {int: [LOW, HIGH]} and {choice: [A, B]}.`,
    );
  }
  const condition = Object.keys(given).find((key) => CONDITIONS.includes(key));
  const nested = Array.isArray(given.choice) && given.choice.some(isRecord);
  if (condition !== undefined || nested) {
    throw refused(
      `${where} depends on another choice${
        condition === undefined ? "" : ` ("${condition}")`
      }, and conditional spaces are not searched: make one search for each choice, and give the choice as a flag.`,
    );
  }
  const kinds = KINDS.filter((kind) => Object.hasOwn(given, kind) && !(kind === "log" && given.log === true));
  const unknown = Object.keys(given).find((key) => !KINDS.some((kind) => kind === key));
  if (unknown !== undefined) {
    throw refused(
      `${where} has an unknown key "${unknown}".${didYouMean(unknown, KINDS)} A setting has one of ${
        KINDS.join(", ")
      }.`,
    );
  }
  if (kinds.length !== 1) {
    throw refused(`${where} should have one of ${KINDS.join(", ")}, but has ${kinds.length}.`);
  }
  const [kind] = kinds;
  if (kind === "choice") return { ...named, kind, choices: choicesOf(given.choice, place) };
  if (setting.kind !== "int" && setting.kind !== "float") {
    throw refused(`${where} is no number, so it has no range: give {choice: [A, B]}.`);
  }
  const log = kind === "log" || given.log === true;
  const whole = kind === "int" || setting.kind === "int";
  return { ...named, kind: whole ? "int" : "float", ...rangeOf(given[kind], { ...place, log, whole }), log };
}

function rangeOf(given: unknown, { where, declared, log, whole }: Place & { log: boolean; whole: boolean }) {
  const ends = Array.isArray(given) ? given.map(Number) : [];
  const [low, high] = ends;
  if (ends.length !== 2 || !ends.every(Number.isFinite)) {
    throw refused(`${where} should have two numbers, [LOW, HIGH], but got ${JSON.stringify(given)}.`);
  }
  if (!(low < high)) {
    throw refused(`${where}: the range [${low}, ${high}] should go from a smaller to a larger number.`);
  }
  if (whole && !ends.every(Number.isSafeInteger)) {
    throw refused(`${where} should go between whole numbers, but got [${low}, ${high}].`);
  }
  if (log && !(low > 0)) {
    throw refused(
      `${where}: a logarithmic range begins above 0, but got ${low}. {uniform: [${low}, ${high}]} takes it.`,
    );
  }
  for (const end of ends) checked(declared, String(end), where);
  return { low, high };
}

function choicesOf(given: unknown, { where, declared }: Place): string[] {
  const list = Array.isArray(given) ? given : [];
  const choices = list.map((one) => Array.isArray(one) ? one.join(",") : String(one));
  if (choices.length < 2) {
    throw refused(`${where} should have two choices or more, but got ${JSON.stringify(given ?? null)}.`);
  }
  const twice = choices.find((one, i) => choices.indexOf(one) !== i);
  if (twice !== undefined) throw refused(`${where} has the choice ${twice} twice.`);
  for (const one of choices) checked(declared, one, where);
  return choices;
}

function checked(declared: Declared, word: string, where: string): void {
  try {
    fromText(declared, word, setOrigin(declared.path));
  } catch (cause) {
    if (!(cause instanceof UserError)) throw cause;
    throw new UserError("usage", `${where}: ${cause.message.replace(/^--set \S+: /, "")}`, { cause });
  }
}

const refused = (sentence: string): UserError => new UserError("usage", sentence);

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
