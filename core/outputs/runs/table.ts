// The table of runs as lines of a terminal, and as CSV.
import { isBetter, LOSS } from "../../run/best.ts";
import { formatDuration, formatPlural, formatValue } from "../../base/format.ts";
import {
  clipText,
  type Colour,
  harmless,
  padded,
  painted,
  terminalWidthOf,
  type TextStyle,
} from "../../base/terminal_text.ts";
import { whyUnlike } from "../../run/validation.ts";
import { STATE_COLOUR } from "../watch/screen.ts";
import { shortNames } from "./fields.ts";
import type { RowState, RunRow } from "./row.ts";

export interface ShownRuns {
  readonly rows: readonly RunRow[];
  /** Paths of the settings that differ. */
  readonly differ: readonly string[];
  /** Unix seconds. */
  readonly now: number;
}

interface Column {
  readonly name: string;
  readonly number?: true;
  /** Longer cells are cut. */
  readonly most: number;
  cell(row: RunRow): string;
  readonly colour?: (row: RunRow) => Colour | null;
}

const BETWEEN = "  ";

/** Means of epochs are other numbers. */
export const LAST_STEP = "last step";

const COLOURS: Readonly<Record<RowState, Colour>> = { ...STATE_COLOUR, broken: "red" };

export const stateText = ({ state, failure }: RunRow): string =>
  failure === null ? state : `failed: ${failure}`;

export const stepsText = ({ step, steps }: RunRow): string =>
  steps === null ? String(step) : `${step}/${steps}`;

export function agoText(seconds: number): string {
  if (seconds < 60) return "now";
  const [size, unit] = seconds < 3600 ? [60, "min"] : seconds < 86_400 ? [3600, "h"] : [86_400, "d"];
  return `${Math.floor(seconds / size)} ${unit} ago`;
}

/** Two runs of one name are told apart by their folders. */
export function labelsOf(rows: readonly RunRow[]): Map<RunRow, string> {
  const count = new Map<string, number>();
  for (const { run } of rows) count.set(run, (count.get(run) ?? 0) + 1);
  return new Map(rows.map((row) => [row, count.get(row.run)! > 1 ? row.folder : row.run]));
}

/** The first columns are kept longest where there is little room. */
function columnsOf({ rows, differ, now }: ShownRuns): { shown: Column[]; settings: Column[] } {
  const labels = labelsOf(rows), short = shortNames(differ);
  const text = (value: number | null, format: (value: number) => string) =>
    value === null ? "" : format(value);
  const mixed = new Set(rows.flatMap(({ metric }) => metric ?? [])).size > 1;
  const metric = rows.find(({ metric }) => metric !== null)?.metric ?? "val_loss";
  const settings = differ.map((path): Column => ({
    name: short.get(path)!,
    number: rows.every(({ settings }) => !Number.isNaN(Number(settings.get(path) ?? 0))) || undefined,
    most: 24,
    cell: ({ settings }) => settings.get(path) ?? "",
  }));
  return {
    settings,
    shown: [
      { name: "run", most: 40, cell: (row) => labels.get(row)! },
      {
        name: "state",
        most: 22,
        cell: stateText,
        colour: ({ state }) => COLOURS[state],
      },
      {
        name: mixed ? "best" : metric === "loss" ? `loss, ${LAST_STEP}` : `best ${metric}`,
        number: true,
        most: 24,
        cell: ({ best, metric }) =>
          text(best, formatValue) + (mixed && metric === "loss" ? ` (${LAST_STEP})` : ""),
      },
      { name: "step", number: true, most: 24, cell: (row) => row.state === "broken" ? "" : stepsText(row) },
      { name: "time", number: true, most: 12, cell: ({ seconds }) => text(seconds, formatDuration) },
      {
        name: "goodput",
        number: true,
        most: 8,
        cell: ({ goodput }) => text(goodput, (value) => `${value.toFixed(0)}%`),
      },
      {
        name: "started",
        number: true,
        most: 12,
        cell: ({ started }) => text(started, (at) => agoText(now - at)),
      },
    ],
  };
}

/** How the columns stand beside each other, and which comes in first where there is room. */
function arranged(
  { shown: [run, state, best, step, time, goodput, started], settings }: ReturnType<typeof columnsOf>,
) {
  const [first, second, ...others] = settings;
  const wanted = [run, state, best, first, step, second, time, goodput, started, ...others];
  return {
    wanted: wanted.filter((column) => column !== undefined),
    places: [run, state, best, ...settings, step, time, goodput, started],
  };
}

/** `width` is Infinity where nothing limits it. */
export function tableLines(shown: ShownRuns, width: number, style: TextStyle): string[] {
  const { rows } = shown, columns = columnsOf(shown);
  const { wanted, places } = arranged(columns);
  const cells = new Map(places.map((column) => [column, rows.map((row) => harmless(column.cell(row)))]));
  const widths = new Map<Column, number>();
  let used = 0;
  for (const column of wanted) {
    const longest = cells.get(column)!.reduce((most, cell) => Math.max(most, terminalWidthOf(cell)), 0);
    if (longest === 0 && column !== columns.shown[0]) continue; // no run has it
    const most = column.name === "run"
      ? Math.max(16, Math.min(column.most, Math.floor(width / 3)))
      : column.most;
    const own = Math.min(most, Math.max(longest, column.name.length));
    const gap = widths.size > 0 ? BETWEEN.length : 0;
    const room = width - used - gap;
    if (own > room && widths.size > 0) continue;
    widths.set(column, Math.max(1, Math.min(own, room)));
    used += gap + Math.min(own, room);
  }
  const shownColumns = places.filter((column) => widths.has(column));
  const lineOf = (cell: (column: Column) => string, row: RunRow | null) =>
    shownColumns.map((column) => {
      const wide = widths.get(column)!, text = clipText(cell(column), wide, style);
      const fill = " ".repeat(Math.max(0, wide - terminalWidthOf(text)));
      const drawn = painted(text, row ? column.colour?.(row) ?? null : "bold", style);
      return column.number ? fill + drawn : drawn + fill;
    }).join(BETWEEN).trimEnd();
  const body = rows.map((row, i) => {
    const line = lineOf((column) => cells.get(column)![i], row);
    return row.state === "broken" ? brokenLine(line, row, shownColumns, widths, width, style) : line;
  });
  return [lineOf(({ name }) => name, null), ...body];
}

/** The sentence stands where a row has no numbers. */
function brokenLine(
  line: string,
  { why }: RunRow,
  columns: readonly Column[],
  widths: ReadonlyMap<Column, number>,
  width: number,
  style: TextStyle,
): string {
  const named = columns.slice(0, 2).reduce((sum, column) => sum + widths.get(column)! + BETWEEN.length, 0);
  const room = width - named;
  if (room < 16) return line;
  return padded(line, Math.min(named, width), style) +
    painted(clipText(harmless(why), room, style), "dim", style);
}

/** They stand below the table and say how many there are, the best one, and what failed. */
export function footLines(shown: ShownRuns, all: number, width: number, style: TextStyle): string[] {
  const { rows } = shown, labels = labelsOf(rows);
  const counts = Object.entries(Object.groupBy(rows, ({ state }) => state))
    .map(([state, of]) => `${of!.length} ${state}`);
  const kept = rows.length < all ? `${rows.length} of ${formatPlural(all, "run")}` : formatPlural(all, "run");
  const lines = [[kept, ...counts].join(", ")];
  const best = bestRun(rows);
  if (best && rows.length > 1) {
    lines.push(
      `best: ${harmless(labels.get(best)!)} (${
        best.metric === "loss" ? `training loss, ${LAST_STEP}:` : best.metric
      } ${formatValue(best.best!)}${best.bestEpoch === null ? "" : ` at epoch ${best.bestEpoch}`})`,
    );
  }
  const why = whyNoBest(rows);
  if (why) lines.push(harmless(why));
  const notes = rows.flatMap((row) => sentencesOf(row).map((sentence) => `${labels.get(row)!}: ${sentence}`));
  lines.push(...notes.slice(0, MOST_NOTES).map(harmless));
  if (notes.length > MOST_NOTES) {
    lines.push(`and ${notes.length - MOST_NOTES} more (--filter state=failed, --csv)`);
  }
  return lines.map((line) => clipText(line, width, style));
}

const MOST_NOTES = 8;

const sentencesOf = ({ state, why, problem }: RunRow): string[] => [
  ...(state === "failed" || state === "gone" ? [why] : []),
  ...(problem === null ? [] : [problem]),
];

/** Training losses are compared only where no run has a validation loss. */
function judgedOf(rows: readonly RunRow[]): RunRow[] {
  const metrics = rows.flatMap(({ metric }) => metric ?? []);
  const metric = metrics.includes(LOSS) ? LOSS : metrics.find((name) => name !== "loss") ?? "loss";
  return rows.filter((row) => row.metric === metric && Number.isFinite(row.best));
}

/** Null where they are compared, or one alone has a value. */
export const whyNoBest = (rows: readonly RunRow[]): string | null =>
  whyUnlike(judgedOf(rows).map(({ validation }) => validation));

export function bestRun(rows: readonly RunRow[]): RunRow | null {
  if (whyNoBest(rows) !== null) return null;
  const judged = judgedOf(rows);
  return judged.reduce<RunRow | null>(
    (first, row) => isBetter(row.mode ?? "min", row.best!, first?.best) ? row : first,
    null,
  );
}

/** By their names in CSV and JSON. */
const FACTS: Readonly<Record<string, (row: RunRow) => string | number | null>> = {
  run: ({ run }) => run,
  folder: ({ folder }) => folder,
  state: ({ state }) => state,
  why: ({ why }) => why,
  failure: ({ failure }) => failure,
  problem: ({ problem }) => problem,
  model: ({ model }) => model,
  ranks: ({ ranks }) => ranks,
  best: ({ best }) => best,
  metric: ({ metric }) => metric,
  best_step: ({ bestStep }) => bestStep,
  best_epoch: ({ bestEpoch }) => bestEpoch,
  step: ({ step }) => step,
  steps: ({ steps }) => steps,
  epoch: ({ epoch }) => epoch,
  epochs: ({ epochs }) => epochs,
  seconds: ({ seconds }) => seconds,
  seconds_left: ({ secondsLeft }) => secondsLeft,
  goodput_percent: ({ goodput }) => goodput,
  attempts: ({ attempts }) => attempts,
  started: ({ started }) => dateText(started),
  seen: ({ seen }) => dateText(seen),
};

/** Null where the file that it is from holds no time that can be. */
export function dateText(seconds: number | null): string | null {
  const date = new Date(1000 * (seconds ?? NaN));
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}

export function csvLines({ rows, differ }: ShownRuns): string[] {
  const metrics = metricNames(rows);
  const head = [...Object.keys(FACTS), ...metrics, ...differ];
  const lines = rows.map((row) => [
    ...Object.values(FACTS).map((of) => of(row)),
    ...metrics.map((name) => Object.hasOwn(row.metrics, name) ? row.metrics[name] : null),
    ...differ.map((path) => row.settings.get(path) ?? null),
  ]);
  return [head, ...lines].map((line) => line.map(csvCell).join(","));
}

/** JSON has no NaN, so what is not finite is null. */
export function runsJson({ rows, differ }: ShownRuns): string {
  const runs = rows.map((row) => ({
    ...Object.fromEntries(Object.entries(FACTS).map(([name, of]) => [name, of(row)])),
    metrics: row.metrics,
    settings: Object.fromEntries(differ.map((path) => [path, row.settings.get(path) ?? null])),
  }));
  return JSON.stringify({ runs, differing: differ }, null, 1);
}

/** Metrics of single targets or classes, "r2/NAME", are left to the report. */
export const metricNames = (rows: readonly RunRow[]): string[] =>
  [...new Set(rows.flatMap(({ metrics }) => Object.keys(metrics)))].filter((name) => !name.includes("/"));

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** A spreadsheet takes text that begins with one of these signs for a formula, so a quote goes before it. */
export function csvCell(value: string | number | null): string {
  if (value === null) return "";
  const text = typeof value === "number" ? numberText(value) : value;
  const safe = typeof value === "string" && /^[=+\-@\t\r\n]/.test(text) && !NUMBER.test(text)
    ? `'${text}`
    : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** As Python and spreadsheets' importers spell them. */
const numberText = (value: number): string =>
  Number.isNaN(value) ? "nan" : value === Infinity ? "inf" : value === -Infinity ? "-inf" : String(value);
