// The words that filter and sort the table of runs: a run's own facts, its metrics, and its settings by their path,
// the end of it, or their flag.
import { UserError } from "../../base/errors.ts";
import { didYouMean } from "../../base/suggest.ts";
import { NAMES_OF_RUN } from "../../run/flat_settings.ts";
import { parseDuration } from "../../settings/setting.ts";
import { canonical, FLAGS } from "../../settings/settings.ts";
import type { RowState, RunRow } from "./row.ts";

type Value = number | string | null;

interface RunField {
  readonly name: string;
  of(row: RunRow): Value;
  /** Turns what a person types into a value of the field; null where it is none. */
  read(text: string): number | string | null;
}

const text = (name: string, of: RunField["of"]): RunField => ({ name, of, read: (typed) => typed });
const plainNumber = (typed: string): number | null => {
  const value = Number(typed);
  return typed.trim() === "" || Number.isNaN(value) ? null : value;
};
const number = (name: string, of: RunField["of"], read: RunField["read"] = plainNumber): RunField => ({
  name,
  of,
  read,
});

/** Seconds, or "90min". */
const duration = (typed: string): number | null => {
  const found = parseDuration(typed, "seconds");
  return found?.unit === "seconds" ? found.count : null;
};
/** "2026-11-24", "2026-11-24T08:00", in the time of this machine. */
const date = (typed: string): number | null => {
  const day = /^\d{4}-\d\d-\d\d$/.test(typed) ? `${typed}T00:00` : typed;
  const time = /^\d{4}-/.test(typed) ? Date.parse(day) / 1000 : NaN;
  return Number.isNaN(time) ? null : time;
};
const percent = (typed: string): number | null => plainNumber(typed.replace(/%$/, ""));

const FACTS: readonly RunField[] = [
  text("run", ({ run }) => run),
  { ...text("state", ({ state }) => state), read: (typed) => typed === "finished" ? "done" : typed },
  text("why", ({ why }) => why),
  text("model", ({ model }) => model),
  text("metric", ({ metric }) => metric),
  text("folder", ({ folder }) => folder),
  number("best", ({ best }) => best),
  number("val_loss", ({ best, metric, valLoss }) => valLoss ?? (metric === "val_loss" ? best : null)),
  number("loss", ({ best, metric }) => metric === "loss" ? best : null),
  number("step", ({ step }) => step),
  number("steps", ({ steps }) => steps),
  number("epoch", ({ epoch }) => epoch),
  number("epochs", ({ epochs }) => epochs),
  number("ranks", ({ ranks }) => ranks),
  number("attempts", ({ attempts }) => attempts),
  number("time", ({ seconds }) => seconds, duration),
  number("left", ({ secondsLeft }) => secondsLeft, duration),
  number("goodput", ({ goodput }) => goodput, percent),
  number("started", ({ started }) => started, date),
];

/** Among these runs: metrics and settings are those that they have. */
function fieldNamed(word: string, rows: readonly RunRow[]): RunField {
  const fact = FACTS.find(({ name }) => name === word);
  if (fact) return fact;
  const metric = word.replace(/^val_/, "");
  if (rows.some(({ metrics }) => Object.hasOwn(metrics, metric))) {
    return number(word, ({ metrics }) => Object.hasOwn(metrics, metric) ? metrics[metric] : null);
  }
  return setting(word, rows);
}

function setting(word: string, rows: readonly RunRow[]): RunField {
  const known = new Set(rows.flatMap(({ settings }) => [...settings.keys()]));
  const flag = FLAGS.get(word.replaceAll("_", "-"))?.declared.path;
  const path = [canonical(word), flag].find((one) => one !== undefined && known.has(one));
  const ends = path === undefined ? [...known].filter((one) => one.endsWith(`.${word}`)) : [path];
  if (ends.length === 1) {
    return { name: ends[0], of: ({ settings }) => valueOf(settings.get(ends[0])), read: (typed) => typed };
  }
  if (ends.length > 1) {
    throw new UserError("usage", `${word} may be each of ${ends.join(", ")}: write the one that you mean.`);
  }
  const words = [...FACTS.map(({ name }) => name), ...known];
  throw new UserError(
    "usage",
    `No run here has a "${word}".${didYouMean(word, words)} It may be ${
      FACTS.map(({ name }) => name).join(", ")
    }, a metric, or a setting.`,
  );
}

const valueOf = (given: string | undefined): Value => {
  if (given === undefined) return null;
  return plainNumber(given) ?? given;
};

const FILTER = /^([\w.-]+)\s*(<=|>=|!=|=|<|>)\s*(.*)$/s;

/** Keeps the runs for which all of these are true. */
export function filtered(rows: readonly RunRow[], filters: readonly string[]): RunRow[] {
  const tests = filters.map((filter) => testOf(filter, rows));
  return rows.filter((row) => tests.every((test) => test(row)));
}

function testOf(filter: string, rows: readonly RunRow[]): (row: RunRow) => boolean {
  const [, word, sign, typed] = FILTER.exec(filter) ?? [];
  if (word === undefined) {
    throw new UserError(
      "usage",
      `--filter "${filter}" is no filter. Write NAME=VALUE, or with !=, <, <=, > or >=, such as --filter state=failed ` +
        `'val_loss<0.3'. A folder stands before --filter.`,
    );
  }
  const field = fieldNamed(word, rows);
  const wanted = field.read(typed);
  const order = sign === "<" || sign === ">" || sign === "<=" || sign === ">=";
  const bound = typeof wanted === "number" ? wanted : plainNumber(typed);
  if (wanted === null || (order && bound === null)) {
    throw new UserError(
      "usage",
      `--filter "${filter}": ${typed || "nothing"} can't be compared with ${word}.`,
    );
  }
  if (order) return (row) => compares(field.of(row), sign, bound!);
  const same = (value: Value) => value !== null && isSame(value, wanted);
  return sign === "=" ? (row) => same(field.of(row)) : (row) => !same(field.of(row));
}

function compares(value: Value, sign: string, bound: number): boolean {
  if (typeof value !== "number") return false;
  if (sign === "<") return value < bound;
  if (sign === ">") return value > bound;
  return sign === "<=" ? value <= bound : value >= bound;
}

/** Numbers are equal as numbers, so that 1e-3 finds 0.001; in text * stands for anything. */
function isSame(value: number | string, wanted: number | string): boolean {
  if (typeof value === "number") return value === (typeof wanted === "number" ? wanted : plainNumber(wanted));
  const pattern = String(wanted).split("*").map((part) => RegExp.escape(part)).join(".*");
  return new RegExp(`^${pattern}$`, "is").test(value);
}

const STATES: readonly RowState[] = [
  ...["running", "starting", "silent", "requeued", "stopped", "failed", "gone", "broken", "done"] as const,
];

/** The best first, the newest first, running ones first; others ascend. Runs without a value come last either way. */
export function sorted(rows: readonly RunRow[], word: string, reverse: boolean): RunRow[] {
  const key = keyOf(word, rows), way = reverse ? -1 : 1;
  const keyed = rows.map((row) => ({ row, value: key(row) }));
  keyed.sort((a, b) => {
    if (isNothing(a.value) || isNothing(b.value)) {
      return Number(isNothing(a.value)) - Number(isNothing(b.value)) || byName(a.row, b.row);
    }
    return way * order(a.value!, b.value!) || byName(a.row, b.row);
  });
  return keyed.map(({ row }) => row);
}

function keyOf(word: string, rows: readonly RunRow[]): (row: RunRow) => Value {
  if (word === "state") return ({ state }) => STATES.indexOf(state);
  if (word === "started") return ({ started }) => started === null ? null : -started;
  if (word === "best") return ({ best, mode }) => best !== null && mode === "max" ? -best : best;
  return fieldNamed(word, rows).of;
}

const isNothing = (value: Value): boolean => value === null || Number.isNaN(value);
const names = new Intl.Collator("en", { numeric: true });
const byName = (a: RunRow, b: RunRow) => names.compare(a.run, b.run) || names.compare(a.folder, b.folder);

function order(a: number | string, b: number | string): number {
  return typeof a === "number" && typeof b === "number" ? a - b : names.compare(String(a), String(b));
}

/** The settings that differ between these runs: those first that most runs have changed. */
export function differing(rows: readonly RunRow[]): string[] {
  const made = rows.filter(({ settings }) => settings.size > 0);
  const paths = new Set(made.flatMap(({ settings }) => [...settings.keys()]));
  const counted = [...paths].filter((path) => !NAMES_OF_RUN.test(path)).map((path) => {
    const counts = new Map<string, number>();
    for (const { settings } of made) {
      const value = settings.get(path) ?? "";
      counts.set(value, (counts.get(value) ?? 0) + 1);
    }
    return { path, other: made.length - Math.max(...counts.values()) };
  });
  return counted.filter(({ other }) => other > 0).sort((a, b) => b.other - a.other).map(({ path }) => path);
}

/** As short as it is clear: its flag, or the end of its path. */
export function shortNames(paths: readonly string[]): Map<string, string> {
  const flags = new Map(
    [...FLAGS].filter(([, { fixed, spelling }]) => fixed === undefined && !spelling)
      .map(([flag, { declared }]) => [declared.path, flag]),
  );
  const ends = paths.map((path) => flags.get(path) ?? path.slice(path.lastIndexOf(".") + 1));
  return new Map(
    paths.map((path, i) => [path, ends.indexOf(ends[i]) === ends.lastIndexOf(ends[i]) ? ends[i] : path]),
  );
}
