// Flags with several values are the axes of a sweep; their combinations, all or random ones, are its runs.
// Pure.
import { SOURCE_FLAGS, takesValue } from "../../settings/flags.ts";
import { looksLikeFlag, splitFlag, takeValue, unknownFlag } from "../../settings/options.ts";
import type { Setting } from "../../settings/setting.ts";
import { type Declared, findSetting, FLAGS, hintForPath } from "../../settings/settings.ts";
import { type FlagOrigin, flagOrigin, formatOrigin, fromText, setOrigin } from "../../settings/values.ts";
import { UserError } from "../../base/errors.ts";
import { key, uniform } from "../../base/random.ts";

export interface SweepAxis {
  readonly name: string;
  readonly path: string;
  readonly setting: Setting;
  /** This is "--lr=" or "--set=model.hidden_size=". */
  readonly before: string;
  readonly choices: readonly string[];
  readonly range: { readonly low: number; readonly high: number } | null;
}

export interface SweepRequest {
  readonly fixed: readonly string[];
  readonly axes: readonly SweepAxis[];
}

/** These flags make the run itself, or the sweep sets them. */
export const NOT_SWEPT: Readonly<Record<string, string>> = {
  "output.run_name": "each run is named by its values: name the sweep with --name",
  "output.save_dir": "all runs of a sweep are in one folder",
  "distributed.nodes": "the runs are jobs of one array, which are all of one size",
  "distributed.gpus_per_node": "the runs are jobs of one array, which are all of one size",
  "training.resume": "each run goes on from its own checkpoint by itself",
};

export function readAxes(argv: readonly string[], usage: string): SweepRequest {
  const fixed: string[] = [], axes: SweepAxis[] = [];
  const rest = [...argv];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    const { name, value } = splitFlag(word);
    const flag = FLAGS.get(name);
    if (!looksLikeFlag(word)) {
      throw new UserError("usage", `"${word}" is no flag. Usage: ${usage}`);
    }
    if (!word.startsWith("--") || (!flag && !Object.hasOwn(SOURCE_FLAGS, name))) {
      throw unknownFlag(word, [...FLAGS.keys(), ...Object.keys(SOURCE_FLAGS)], usage);
    }
    if (!takesValue(name)) {
      fixed.push(word);
      continue;
    }
    const given = value ?? takeValue(name, rest, "a value");
    const axis = name === "set"
      ? ofSetting(given)
      : flag
      ? axisOf(flag.declared, flagOrigin(name), given)
      : null;
    if (axis) axes.push(axis);
    else fixed.push(`--${name}=${given}`);
  }
  refuseTwice(axes);
  return { fixed, axes };
}

function ofSetting(pair: string): SweepAxis | null {
  const equals = pair.indexOf("=");
  const path = pair.slice(0, equals).trim();
  if (equals < 1) {
    throw new UserError("usage", `--set needs KEY=VALUE, such as training.epochs=10, but got "${pair}".`);
  }
  const declared = findSetting(path);
  if (!declared) throw new UserError("usage", `--set: unknown setting "${path}".${hintForPath(path)}`);
  return axisOf(declared, setOrigin(path), pair.slice(equals + 1));
}

/** Returns null for one value. Commas outside brackets separate values, semicolons those of lists; `\,` is a comma. */
function axisOf(declared: Declared, origin: FlagOrigin, given: string): SweepAxis | null {
  const { path, setting } = declared;
  if (path.startsWith("cluster.")) return null; // such as lists of partitions or nodes
  const before = origin.key === undefined ? `${origin.name}=` : `${origin.name}=${origin.key}=`;
  const numeric = setting.kind === "int" || setting.kind === "float";
  const ends = numeric ? /^([^,]+?)\.\.([^,]+)$/.exec(given)?.slice(1) : undefined;
  const mark = setting.kind === "list" ? ";" : ",";
  const choices = ends
    ? []
    : given.split(new RegExp(`(?<!\\\\)${mark}(?![^(\\[]*[)\\]])`)).map((one) =>
      one.replaceAll(`\\${mark}`, mark)
    );
  if (!ends && choices.length < 2) return null;
  if (Object.hasOwn(NOT_SWEPT, path)) {
    throw new UserError(
      "usage",
      `${before.slice(0, -1)} can't have several values: ${NOT_SWEPT[path]}.`,
    );
  }
  for (const value of ends ?? choices) fromText(declared, value, origin);
  const range = ends ? { low: Number(ends[0]), high: Number(ends[1]) } : null;
  if (range && !(range.low < range.high)) {
    throw new UserError(
      "usage",
      `${formatOrigin(origin)}: the range ${given} should go from a smaller to a larger number.`,
    );
  }
  return { name: path.slice(path.lastIndexOf(".") + 1), path, setting, before, choices, range };
}

function refuseTwice(axes: readonly SweepAxis[]): void {
  const twice = axes.find(({ name }, i) => axes.some((other, j) => j < i && other.name === name));
  if (twice) {
    throw new UserError("usage", `The sweep has two lists of values for ${twice.name}: put them into one.`);
  }
}

type Point = readonly string[];

const MOST_RUNS = 10_000;
/** A range whose ends differ by this factor is drawn from by its logarithm. */
const WIDE = 10;

export const isLogarithmic = ({ low, high }: NonNullable<SweepAxis["range"]>): boolean =>
  low > 0 && high / low >= WIDE;

export function grid(axes: readonly SweepAxis[]): Point[] {
  const range = axes.find((axis) => axis.range);
  if (range) {
    throw new UserError(
      "usage",
      `${
        range.before.replace(/=$/, "")
      } is a range, from which runs are drawn at random: say how many with --random N.`,
    );
  }
  const size = axes.reduce((product, { choices }) => product * choices.length, 1);
  if (size > MOST_RUNS) {
    throw new UserError(
      "usage",
      `That would be ${size} runs, and a sweep may have ${MOST_RUNS}: draw some with --random N.`,
    );
  }
  return axes.reduce<Point[]>(
    (points, { choices }) => points.flatMap((point) => choices.map((value) => [...point, value])),
    [[]],
  );
}

/** The same seed draws the same runs, more runs begin with those of fewer, and no run is drawn twice. */
export function drawnPoints(axes: readonly SweepAxis[], count: number, seed: number): Point[] {
  const points = new Map<string, Point>();
  for (let i = 0; points.size < count && i < 100 * count; i++) {
    const point = axes.map((axis) => draw(axis, uniform(key(seed, "sweep", axis.name))(i)));
    points.set(point.join("\0"), point);
  }
  return [...points.values()];
}

function draw({ choices, range, setting }: SweepAxis, u: number): string {
  if (!range) return choices[Math.floor(u * choices.length)];
  const { low, high } = range;
  const whole = setting.kind === "int";
  const value = isLogarithmic(range) ? low * (high / low) ** u : low + (high - low) * u;
  return String(whole ? Math.round(value) : Number(value.toPrecision(4)));
}

const LONGEST_NAME = 100;
const SHORT_NAMES: Readonly<Record<string, string>> = {
  learning_rate: "lr",
  batch_size: "bs",
  weight_decay: "wd",
  hidden_size: "hidden",
  type: "opt",
  name: "",
};

/** Every name is a valid file name, and no two are alike. */
export function runNames(sweep: string, axes: readonly SweepAxis[], points: readonly Point[]): string[] {
  const plain = points.map((point) => {
    const parts = point.map((value, i) => (SHORT_NAMES[axes[i].name] ?? axes[i].name) + slugOf(value));
    return [sweep, ...parts].join("-").slice(0, LONGEST_NAME).replace(/[-.+]+$/, "");
  });
  const seen = new Set<string>(), repeated = new Set<string>();
  for (const name of plain) (seen.has(name) ? repeated : seen).add(name);
  return plain.map((name, i) => repeated.has(name) ? `${name}-run${i}` : name);
}

const slugOf = (value: string) =>
  value.slice(value.lastIndexOf("/") + 1).normalize("NFKD").replace(/[^\w.+]+/g, "-").replace(/^-+|-+$/g, "");
