// The words of a sweep: flags with one value are fixed, those with several are axes. Pure. May import config, errors.
import { SOURCE_FLAGS, takesValue } from "../../config/flags.ts";
import { looksLikeFlag, splitFlag, takeValue, unknownFlag } from "../../config/options.ts";
import type { Setting } from "../../config/kinds.ts";
import { FLAGS, hintForPath, lookUp } from "../../config/tree.ts";
import { fromText } from "../../config/values.ts";
import { UserError } from "../../errors.ts";

export interface Axis {
  /** The last part of the setting's path: "learning_rate". */
  readonly name: string;
  readonly setting: Setting;
  /** What is put before a value: "--lr=" or "--set=model.hidden_size=". */
  readonly before: string;
  readonly choices: readonly string[];
  /** For random sweeps. */
  readonly range: { readonly low: number; readonly high: number } | null;
}

export interface Words {
  readonly fixed: readonly string[];
  readonly axes: readonly Axis[];
}

/** What makes a run itself, and what a sweep gives each run. */
const NOT_SWEPT: Readonly<Record<string, string>> = {
  "output.run_name": "each run is named by its values: name the sweep with --name",
  "output.save_dir": "all runs of a sweep are in one folder",
  "distributed.nodes": "the runs are jobs of one array, which are all of one size",
  "distributed.gpus_per_node": "the runs are jobs of one array, which are all of one size",
  "training.resume": "each run goes on from its own checkpoint by itself",
};

export function readAxes(argv: readonly string[], usage: string): Words {
  const fixed: string[] = [], axes: Axis[] = [];
  const rest = [...argv];
  while (rest.length > 0) {
    const word = rest.shift()!;
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
      ? axisOf(flag.declared.path, `--${name}=`, given)
      : null;
    if (axis) axes.push(axis);
    else fixed.push(`--${name}=${given}`);
  }
  refuseTwice(axes);
  return { fixed, axes };
}

function ofSetting(pair: string): Axis | null {
  const equals = pair.indexOf("=");
  const path = pair.slice(0, equals).trim();
  if (equals < 1) {
    throw new UserError("usage", `--set needs KEY=VALUE, such as training.epochs=10, but got "${pair}".`);
  }
  const declared = lookUp(path);
  if (!declared) throw new UserError("usage", `--set: unknown setting "${path}".${hintForPath(path)}`);
  return axisOf(declared.path, `--set=${path}=`, pair.slice(equals + 1));
}

/** Null where there is one value. Values are parted by commas, those of lists by semicolons; `\,` is a comma. */
function axisOf(path: string, before: string, given: string): Axis | null {
  if (path.startsWith("cluster.")) return null; // about the job: a list of partitions, of nodes to stay away from
  const declared = lookUp(path)!;
  const { setting } = declared;
  const numeric = setting.kind === "int" || setting.kind === "float";
  const [, low, high] = numeric ? /^([^,]+?)\.\.([^,]+)$/.exec(given) ?? [] : [];
  const mark = setting.kind === "list" ? ";" : ",";
  const choices = low === undefined
    ? given.split(new RegExp(`(?<!\\\\)${mark}`)).map((one) => one.replaceAll(`\\${mark}`, mark))
    : [];
  if (low === undefined && choices.length < 2) return null;
  if (Object.hasOwn(NOT_SWEPT, path)) {
    throw new UserError(
      "usage",
      `${before.replace(/=$/, "")} can't have several values: ${NOT_SWEPT[path]}.`,
    );
  }
  const origin = before.replace(/=$/, "").replace("--set=", "--set ");
  for (const value of [...choices, ...(low === undefined ? [] : [low, high!])]) {
    fromText(declared, value, origin);
  }
  const range = low === undefined ? null : { low: Number(low), high: Number(high) };
  if (range && !(range.low < range.high)) {
    throw new UserError(
      "usage",
      `${origin}: the range ${given} should go from a smaller to a larger number.`,
    );
  }
  return { name: path.split(".").at(-1)!, setting, before, choices, range };
}

function refuseTwice(axes: readonly Axis[]): void {
  const twice = axes.find(({ name }, i) => axes.some((other, j) => j < i && other.name === name));
  if (twice) {
    throw new UserError("usage", `The sweep has two lists of values for ${twice.name}: put them into one.`);
  }
}
