// Which columns the model sees and which it predicts, by name. May import errors, config, columns (types).
import type { Config } from "../config/settings.ts";
import { didYouMean } from "../config/suggest.ts";
import { UserError } from "../errors.ts";
import type { Column, Table } from "./columns.ts";

export interface Chosen<C extends Column = Column> {
  readonly features: readonly C[];
  readonly targets: readonly C[];
}

type Names = Pick<Config["data"], "features" | "targets">;

/** Targets are the last column unless named, features all the others. `untold`: targets need not be there, and are none. */
export function chooseColumns<C extends Column>(table: Table<C>, names: Names, untold = false): Chosen<C> {
  const { path, noun, columns } = table;
  const offered = columns.filter((column) => !column.onlyByName);
  if (columns.length === 0) throw new UserError("data", `${path} has no ${noun} in it.`);
  const named = (list: readonly string[], setting: string) =>
    list.map((name, i) => {
      if (list.indexOf(name) < i) {
        throw new UserError("usage", `${setting} names "${name}" twice: leave one of them out.`);
      }
      return find(table, name, setting);
    });
  const wanted = named(names.features, "--features");
  const targets = untold
    ? offered.filter(({ name }) => names.targets.includes(name) && !names.features.includes(name))
    : names.targets.length > 0
    ? named(names.targets, "--targets")
    : offered.filter((column) => !wanted.includes(column)).slice(-1);
  const features = wanted.length > 0 ? wanted : offered.filter((column) => !targets.includes(column));
  const both = features.find((column) => targets.includes(column));
  if (both) {
    throw new UserError(
      "usage",
      `"${both.name}" is among the features and the targets, so the model would be shown what it has to predict: ` +
        "leave it out of one of them.",
    );
  }
  if (features.length === 0 || (targets.length === 0 && !untold)) {
    throw new UserError(
      "data",
      `${path} leaves no ${noun} to ${features.length === 0 ? "learn from" : "predict"}: ` +
        `it has ${list(columns)}. Name some with --features and --targets.`,
    );
  }
  for (const { name, unusable } of [...features, ...(untold ? [] : targets)]) {
    if (unusable) {
      throw new UserError(
        "data",
        `${path}: the ${noun} "${name}" ${unusable}. Leave it out by naming the others: --features and --targets ` +
          `(there: ${list(columns)}).`,
      );
    }
  }
  return { features, targets: untold ? [] : targets };
}

/** Whether all columns are features, so that there is nothing to predict; what is named as a target is. */
export function leavesNothing({ columns }: Table, { features, targets }: Names): boolean {
  const offered = columns.filter(({ onlyByName }) => !onlyByName);
  return targets.length === 0 &&
    (offered.length === 1 || offered.length > 0 && offered.every(({ name }) => features.includes(name)));
}

function find<C extends Column>({ path, noun, columns }: Table<C>, name: string, setting: string): C {
  const found = columns.find((column) => column.name === name);
  if (found) return found;
  const known = columns.map((column) => column.name);
  throw new UserError(
    "data",
    `${path} has no ${noun} "${name}" (${setting}).${didYouMean(name, known)} It has ${list(columns)}.`,
  );
}

const MOST = 20;

/** The names, for a message. */
export function list(columns: readonly Column[]): string {
  const names = columns.slice(0, MOST).map((column) => column.name).join(", ");
  return columns.length > MOST ? `${names}, ... (${columns.length} in all)` : names;
}
