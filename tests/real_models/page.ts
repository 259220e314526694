// What real models came to: a line each while they are tried, the file of results, the page of the table.
import { writePage as writeResultsPage } from "../../bench/page.ts";
import { machine, table, versionsOf, writeResults, writeSection } from "../../bench/report.ts";
import { type Row, STEPS } from "./trial.ts";

const COLUMNS = ["trains", "resumes", "checkpoints", "bf16", "predicts"] as const;

/** What held of one model, in the words of the table. */
export function cellsOf({ equal, resumed, checkpointed, half, predicted, misses }: Row): string[] {
  const missed = (what: string) => misses.some((miss) => miss.what === what);
  const figure = (value: number) => value === 0 ? "same bits" : value.toExponential(0);
  const yes = (held: boolean | null) => held === null ? "-" : held ? "same bits" : "**no**";
  const bold = (text: string, miss: boolean) => miss ? `**${text}**` : text;
  return [
    equal === null ? (missed("train") ? "**no**" : "-") : bold(`${equal} of ${STEPS}`, missed("train")),
    yes(resumed),
    yes(checkpointed),
    half === null ? (missed("bf16") ? "**no**" : "-") : bold(figure(half.far), missed("bf16")),
    predicted === null
      ? (missed("predict") ? "**no**" : "-")
      : predicted === "random"
      ? "random"
      : bold(figure(predicted), missed("predict")),
  ];
}

/** One line. */
export function said(row: Row): string {
  const { name, exported, misses } = row;
  const cells = cellsOf(row).map((cell, i) => `${COLUMNS[i]} ${cell.replaceAll("*", "")}`).join(", ");
  const why = misses.map(({ what, why }) => `\n    ${what}: ${why}`).join("");
  return `${name}: ${exported === null ? "not exported" : `batches of ${exported}, ${cells}`}${why}`;
}

/** How many of all hold each of the promises. */
export function totalsOf(rows: readonly Row[]): Record<string, number> {
  const count = (holds: (row: Row) => boolean) => rows.filter(holds).length;
  const free = (what: string) => (row: Row) => !row.misses.some((miss) => miss.what === what);
  return {
    models: rows.length,
    exported: count(({ exported }) => exported !== null),
    trained: count(({ equal }) => equal !== null),
    sameBits: count(({ equal }) => equal === STEPS),
    resumed: count(({ resumed }) => resumed === true),
    checkpointed: count(({ checkpointed }) => checkpointed === true),
    bf16: count((row) => row.half !== null && free("bf16")(row)),
    predicted: count((row) => typeof row.predicted === "number" && free("predict")(row)),
    random: count(({ predicted }) => predicted === "random"),
    all: count(({ misses }) => misses.length === 0),
  };
}

export const PAGE = "bench/results/real-models.md", SUMMARY = "docs/real-models.md";

const NAME = "real-models";

export interface Results {
  readonly versions: { readonly libtorch: string; readonly torch: string };
  readonly totals: Record<string, number>;
  readonly rows: readonly (Row & { readonly date: string; readonly commit: string })[];
}

export const readResults = (): Results =>
  JSON.parse(Deno.readTextFileSync(new URL(`../../bench/results/${NAME}.json`, import.meta.url)));

function knownRows(): Results["rows"] {
  try {
    return readResults().rows;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** How a row comes into the results, in the place of what was known of its model. */
export interface Recorder {
  /** `names` are those of all models, in their order. */
  record(row: Row, names: readonly string[]): void;
}

/** What is tried from here on is of the tree as it is now. */
export function openRecorder(): Recorder {
  const made = { date: new Date().toISOString().slice(0, 10), commit: commitHere() };
  const versions = versionsOf({
    python: Deno.env.get("HPCTRAIN_PYTHON")!,
    libtorch: Deno.env.get("HPCTRAIN_LIBTORCH")!,
  });
  const head = { command: "./scripts/exported", machine: machine(), versions };
  return {
    record(row, names) {
      const known = new Map(knownRows().map((row) => [row.name, row]));
      known.set(row.name, { ...row, ...made });
      const rows = names.flatMap((name) => known.get(name) ?? []);
      writeResults(NAME, { ...head, totals: totalsOf(rows), rows });
    },
  };
}

export function writePage(): void {
  const results = readResults();
  writeResultsPage(NAME, pageOf(results));
  writeSection(NAME, summaryOf(results), SUMMARY, "scripts/exported");
}

/** Of the tree as it is committed; a tree with changes says so. */
function commitHere(): string {
  const git = (...args: string[]) =>
    new TextDecoder().decode(new Deno.Command("git", { args, stderr: "null" }).outputSync().stdout).trim();
  const changed = git("status", "--porcelain", "--untracked-files=no") !== "";
  return git("rev-parse", "--short=10", "HEAD") + (changed ? " with changes" : "");
}

/** A summary, and the table of each library. */
export function pageOf(results: Results): string {
  const head = [
    "Model",
    "Parameters",
    "Operations",
    "Blocks",
    "Losses",
    "Resumed",
    "Checkpointed",
    "bf16",
    "Predicted",
  ];
  const tables = [...Map.groupBy(results.rows, ({ library }) => library)].map(([library, own]) =>
    `## ${library}\n\n` + table(
      head,
      own.map((row) => [
        row.name + (row.exported === null || row.exported === "any" ? "" : ` (batches of ${row.exported})`),
        row.parameters.toLocaleString("en-US"),
        String(row.operations),
        String(row.blocks),
        ...(row.exported === null ? ["not exported", "", "", "", ""] : cellsOf(row)),
      ]),
    )
  );
  return ["# Real models", triedIn(results), ...tables].join("\n\n");
}

function triedIn({ rows, versions }: Results): string {
  const commits = [...Map.groupBy(rows, ({ commit, date }) => `${commit} (${date})`)]
    .map(([commit, own]) => `${own.length} at commit ${commit}`).join(", ");
  return `Models tried: ${commits}; libtorch ${versions.libtorch}, PyTorch ${versions.torch}. docs/real-models.md says what the ` +
    "columns are.";
}

/** How many models hold what, and each miss with its reason. */
export function summaryOf({ rows }: Results): string {
  const t = totalsOf(rows);
  const misses = rows.flatMap(({ name, misses }) =>
    misses.map(({ what, why }) => `- **${name}**, ${what}: ${plain(why)}`)
  );
  return [
    `PyTorch exports ${t.exported} of ${t.models} models. ${t.trained} of these train, ${t.sameBits} with PyTorch's loss bits in all ` +
    `${STEPS} steps; ${t.resumed} go on to the same bits from a checkpoint in the middle of an epoch, ${t.checkpointed} have the same ` +
    `bits with \`--gradient-checkpointing\`, ${t.bf16} have the losses of \`torch.autocast\` under \`--amp bf16\`, and ${t.predicted} ` +
    `predict what the Python module does with the checkpoint's weights (${t.random} draw in evaluation, in PyTorch as well). ${t.all} ` +
    "hold all of it.",
    "## What does not hold",
    misses.length > 0 ? misses.join("\n") : "Nothing.",
  ].join("\n\n");
}

/** Without what Markdown or a terminal would take for its own. */
const plain = (text: string): string => text.replace(/[\\`*_<>|[\]]/g, (sign) => `\\${sign}`);
