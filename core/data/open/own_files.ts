// Samples to validate or to test with may have files of their own (--validation-path, --test-path), which must
// agree with those to train with as joined files must agree with each other.
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import type { Config } from "../../settings/settings.ts";
import { numberedAs } from "../source/classes.ts";
import { numberText } from "../arrays/axis.ts";
import type { DataRequest, Sources } from "../format.ts";
import type { Grid } from "../arrays/grid.ts";
import type { Source } from "../source/source.ts";

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
    sources[setting.role] = agreeing(found.train, main.train, setting);
    const what = setting.role === "val" ? "validate" : "test";
    const said = `${formatPlural(found.train.length, "sample")} of ${path} to ${what} with (${setting.flag})`;
    notes.push(...found.notes.filter((note) => !notes.includes(note)), said);
  }
  const all = [main.train, sources.val, sources.test].filter((source) => source !== null);
  const missing = all.some(({ facts }) => facts.missing);
  const alike = (source: Source | null) =>
    source && (missing ? { ...source, facts: { ...source.facts, missing } } : source);
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

function agreeing(own: Source, main: Source, { flag }: Setting): Source {
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
  if (classes && !own.names && own.facts.outputs > outputs) {
    throw refuse(`has the class ${own.facts.outputs - 1}, and those of ${main.name} end at ${outputs - 1}`);
  }
  checkGrid(main, own, refuse);
  return { ...named, facts: { ...own.facts, outputs }, names: main.names };
}

/** Points of a grid may lie elsewhere; maps may not. */
function checkGrid(main: Source, own: Source, refuse: (why: string) => UserError): void {
  const [a, b] = [main, own].map((source): Grid | null => source.grid?.() ?? null);
  if (!a || !b || a.pointwise) return;
  for (const { name } of a.dimensions.slice(1)) {
    const [here, there] = [a, b].map(({ coordinates }) =>
      coordinates.find((one) => one.role === "coordinate" && one.name === name)
    );
    if (!here || !there) continue;
    const [x, y] = [here, there].map(({ values }) => Float64Array.from(values as ArrayLike<number>, Number));
    const at = x.findIndex((value, i) => !Object.is(value, y[i]));
    if (at >= 0) {
      throw refuse(
        `lies on another grid: ${name}[${at}] is ${numberText(y[at])} there, and ` +
          `${numberText(x[at])} in ${main.name}`,
      );
    }
  }
}
