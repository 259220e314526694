// Samples to validate or to test with may have files of their own (--validation-path, --test-path), which must
// agree with those to train with as joined files must agree with each other.
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import type { Config } from "../../settings/settings.ts";
import { numberText } from "../arrays/coordinate.ts";
import type { DataRequest, Sources } from "../format.ts";
import type { Grid } from "../arrays/grid.ts";
import { finishThen, type Source } from "../source/source.ts";
import type { Device } from "../../../ffi/tensor.ts";
import { indexSelect, toDtype } from "../../../ffi/ops.ts";
import { tensor, toDevice } from "../../../ffi/make.ts";
import { hasRoom } from "../../models/user/file.ts";
import type { Facts } from "../../models/model.ts";

type Role = "val" | "test";

interface Setting {
  readonly role: Role;
  readonly flag: string;
  /** It would take such samples of the data path, too. */
  readonly other: "validate_on" | "test_on";
}

const VALIDATION: Setting = { role: "val", flag: "--validation-path", other: "validate_on" };
const TEST: Setting = { role: "test", flag: "--test-path", other: "test_on" };

/** The settings that name a path, with their paths. */
export const ownPaths = (data: Config["data"]): [Setting, string][] =>
  [[VALIDATION, data.validation_path], [TEST, data.test_path]].filter((pair): pair is [Setting, string] =>
    pair[1] !== ""
  );

export function withOwnFiles(
  request: DataRequest,
  open: (request: DataRequest) => Sources,
  hasColumns: boolean,
): Sources {
  const own = ownPaths(request.data), { data, training } = request;
  if (own.length === 0 || training.unsplit) return open(request);
  for (const [{ flag, other }, path] of own) {
    if (data[other] !== "") {
      throw new UserError(
        "usage",
        `${flag} ${path} and --${other.replace("_", "-")} ${
          data[other]
        } both name the same part: give one of them.`,
      );
    }
    if (!hasColumns) {
      throw new UserError(
        "usage",
        `${flag} is for tables and grids: data of another kind has its own validation set inside it (the folders train ` +
          "and val, say). Leave it out.",
      );
    }
  }
  const validates = own.some(([{ role }]) => role === "val");
  const main = open(validates ? { ...request, data: { ...data, val_samples: 0, folds: 0 } } : request);
  const sources: Record<Role, Source | null> = { val: main.val, test: main.test ?? null };
  const notes = [...main.notes];
  for (const [setting, path] of own) {
    if (setting.role === "val" && data.val_samples === 0) continue;
    const found = open(requestOf(request, main, setting, path));
    checkColumns(found, main, setting, path, data.data_path);
    sources[setting.role] = agreeing(found.train, main.train, setting, request.model);
    const what = setting.role === "val" ? "validate" : "test";
    const ownNote = `${
      formatPlural(found.train.length, "sample")
    } of ${path} to ${what} with (${setting.flag})`;
    notes.push(...found.notes.filter((note) => !notes.includes(note)), ownNote);
  }
  const all = [main.train, sources.val, sources.test].filter((source) => source !== null);
  const missing = all.some(({ facts }) => facts.missing);
  const isNumbers = main.train.facts.task === "regression";
  const outputs = isNumbers ? main.train.facts.outputs : Math.max(...all.map(({ facts }) => facts.outputs));
  const alike = (source: Source | null) =>
    source && (missing || source.facts.outputs !== outputs)
      ? { ...source, facts: { ...source.facts, outputs, ...(missing && { missing }) } }
      : source;
  return {
    ...main,
    train: alike(main.train)!,
    val: alike(sources.val),
    test: alike(sources.test),
    notes,
  };
}

/** All samples of the file, in the columns that training has. */
function requestOf(
  { data, training, model }: DataRequest,
  { chosen, train, seasonal }: Sources,
  { role }: Setting,
  path: string,
): DataRequest {
  const names = (columns: readonly { name: string }[] | undefined, otherwise: string[]) =>
    columns?.map(({ name }) => name) ?? otherwise;
  const most = role === "val" ? data.val_samples : Number.MAX_SAFE_INTEGER;
  return {
    model,
    training: {
      ...{ ...training, unsplit: true, seasonal },
      climatology: train.climate?.climatology ?? training.climatology,
    },
    data: {
      ...data,
      ...{ data_path: path, validation_path: "", test_path: "", validate_on: "", test_on: "", stage: "" },
      features: names(chosen?.features, data.features),
      targets: names(chosen?.targets, data.targets),
      train_samples: most,
    },
  };
}

const list = (shape: readonly number[]) => `[${shape.join(", ")}]`;

function checkColumns(found: Sources, main: Sources, { flag }: Setting, path: string, of: string): void {
  const pairs = (["features", "targets"] as const).flatMap((kind) =>
    (main.chosen?.[kind] ?? []).map((one, i) => ({ one, own: found.chosen?.[kind][i] }))
  );
  const odd = pairs.find(({ one, own }) =>
    one.units !== undefined && own?.units !== undefined && one.units !== own.units
  );
  if (!odd) return;
  throw new UserError(
    "data",
    `${path} (${flag}) has "${odd.one.name}" in the units "${
      odd.own!.units
    }", and ${of} has it in "${odd.one.units}". ` +
      "Convert one of them.",
  );
}

function agreeing(own: Source, main: Source, { flag }: Setting, model: Config["model"]): Source {
  const refuse = (why: string) =>
    new UserError(
      "data",
      `${own.name} (${flag}) ${why}. Both have to be alike: a model is judged by what it learns.`,
    );
  const shapes = [
    ["samples", main.input.shape, own.input.shape],
    ["targets", main.target.shape, own.target.shape],
  ] as const;
  const unlike = shapes.find(([, a, b]) => a.join() !== b.join());
  if (unlike) {
    const [what, a, b] = unlike;
    throw refuse(`has ${what} of ${list(b)}, and ${main.name} has ${list(a)}`);
  }
  const { task, outputs } = main.facts;
  if (own.facts.task !== task) {
    throw refuse(`has targets for ${own.facts.task}, and ${main.name} has them for ${task}`);
  }
  const classes = task === "classification" || task === "segmentation";
  const named = classes ? numberedAs(own, { task, names: main.names ?? [] }) : own;
  const most = Math.max(outputs, classes ? own.facts.outputs : 0);
  if (classes && !own.names && !hasRoom(model, most) && most > outputs) {
    throw refuse(
      `has the class ${most - 1}, and those of ${main.name} end at ${
        outputs - 1
      }: --output-size ${most} gives the model ` +
        "a score for it",
    );
  }
  checkGrid(main, own, refuse);
  return {
    ...named,
    facts: { ...own.facts, outputs: classes && !own.names ? most : outputs },
    names: main.names,
  };
}

/** Points of a grid may lie elsewhere; maps may not. */
function checkGrid(main: Source, own: Source, refuse: (why: string) => UserError): void {
  const [a, b] = [main, own].map((source): Grid | null => source.grid?.() ?? null);
  if (!a || !b || a.pointwise) return;
  for (const { name } of a.dimensions.slice(1)) {
    const [ownCoordinates, otherCoordinates] = [a, b].map(({ coordinates }) =>
      coordinates.find((one) => one.role === "coordinate" && one.name === name)
    );
    if (!ownCoordinates || !otherCoordinates) continue;
    const [x, y] = [ownCoordinates, otherCoordinates].map(({ values }) =>
      Float64Array.from(values as ArrayLike<number>, Number)
    );
    const at = x.findIndex((value, i) => !Object.is(value, y[i]));
    if (at >= 0) {
      throw refuse(
        `lies on another grid: ${name}[${at}] is ${numberText(y[at])} there, and ` +
          `${numberText(x[at])} in ${main.name}`,
      );
    }
  }
}

/**
 * The model's number for each class of the data, -1 for an unknown one; null where they are the same. Each
 * file numbers texts by itself.
 */
export function relabelled(data: readonly string[], model: readonly string[]): number[] | null {
  if (data.length === 0 || model.length === 0 || data.join("\n") === model.join("\n")) return null;
  return data.map((name) => model.indexOf(name));
}

/** The names of classes, in the order of their numbers. */
interface Classes {
  readonly task: Facts["task"];
  readonly names: readonly string[];
}

export function numberedAs(source: Source, { task, names }: Classes): Source {
  const own = source.names ?? [];
  const map = task === "classification" || task === "segmentation" ? relabelled(own, names) : null;
  if (map === null) return source;
  if (task === "segmentation") {
    if (map.every((to, i) => to === i)) return source;
    throw new UserError(
      "data",
      `${source.name} calls its classes ${shown(own)}, and the run's are ${
        shown(names)
      }: number the labels as the run's are, and ` +
        "name them so (classes.txt).",
    );
  }
  const strange = own.filter((_, i) => map[i] < 0);
  if (strange.length > 0) {
    throw new UserError(
      "data",
      `${source.name} has ${strange.length === 1 ? "the class" : "classes"} ${
        shown(strange)
      }, which the run did not have ` +
        `(its classes: ${shown(names)}). Leave those samples out, or use hpctrain predict: it says -1 there.`,
    );
  }
  const numbers = toDtype(tensor(map), "i64");
  const onDevice = (device: Device) => device === "cpu" ? numbers : toDevice(numbers, device);
  return finishThen(source, ({ input, target }) => ({
    input,
    target: indexSelect(onDevice(target.device), 0, target),
  }));
}

const shown = (names: readonly string[]) =>
  names.slice(0, 10).join(", ") + (names.length > 10 ? `, and ${names.length - 10} more` : "");
