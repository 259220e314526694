// The results of whole jobs, and their page: a table, and the command lines of each row.
import type { Code } from "./age.ts";
import { type Side, SIDES } from "./job_lines.ts";
import { type machine, median, table, type versionsOf } from "./report.ts";

export interface JobSide {
  /** As it is typed in a folder with the data. */
  readonly command: string;
  /** From the start to the exit, a figure a round; so are the others. */
  readonly seconds: number[];
  readonly cpu: number[];
  /** Bytes. */
  readonly peak: number[];
  /** Cores that others kept busy meanwhile; a neighbour of --busy is one of them. */
  readonly others: number[];
  val_loss: number;
}

export interface JobRow {
  readonly title: string;
  readonly threads: number;
  readonly busy: boolean;
  /** All sides have as many. */
  readonly parameters: number;
  readonly steps: number;
  readonly batch: number;
  readonly date: string;
  /** Rows may be of several machines. */
  readonly cpu: string;
  /** The machine's load before. */
  readonly load: number;
  readonly code: Code | null;
  readonly sides: Partial<Record<Side, JobSide>>;
}

export interface JobResults {
  readonly command: string;
  /** It is the oldest row's. */
  readonly date: string;
  readonly machine: ReturnType<typeof machine>;
  readonly versions: ReturnType<typeof versionsOf>;
  readonly rows: Readonly<Record<string, JobRow>>;
}

/** Cores that others may keep busy before a row is marked. */
const FEW = 0.3;

/** Others than the neighbour of --busy computed meanwhile, in the mean over all turns. */
export function beside({ sides, busy }: Pick<JobRow, "sides" | "busy">): boolean {
  const others = Object.values(sides).flatMap((side) => side!.others);
  const mean = others.reduce((sum, cores) => sum + cores, 0) / others.length;
  return mean - (busy ? 1 : 0) > FEW;
}

const MARK = "beside other work";

export const titleOf = (row: JobRow): string =>
  [row.title, ...(row.busy ? ["one core busy"] : []), ...(beside(row) ? [MARK] : [])].join("; ");

const seconds = (value: number): string => `${value.toFixed(1)} s`;

/** A line for each side; the speed is that of hpctrain against it. */
export function rowLines(row: JobRow): string[][] {
  const own = median(row.sides.hpctrain!.seconds);
  return SIDES.filter((side) => row.sides[side]).map((side: Side, i) => {
    const { seconds: all, cpu, peak, val_loss } = row.sides[side]!;
    return [
      i === 0 ? titleOf(row) : "",
      i === 0 ? `${row.threads}` : "",
      side,
      seconds(median(all)),
      `${seconds(Math.min(...all))} to ${seconds(Math.max(...all))}`,
      `${(median(all) / own).toFixed(2)}x`,
      seconds(median(cpu)),
      `${(median(peak) / 2 ** 20).toFixed(0)} MB`,
      val_loss.toPrecision(3),
    ];
  });
}

function settingText({ rows, date, machine, versions }: JobResults): string {
  const lightning = Object.values(rows).some(({ sides }) => sides.Lightning);
  return [
    `\`./scripts/bench jobs\`, ${date} at the earliest, on ${machine.cores} cores of the processor that each row's command lines name; libtorch ` +
    `${versions.libtorch}, Python ${versions.python} with PyTorch ${versions.torch}. A job is timed from the start of its ` +
    "process to its exit: starting, reading the data, training, a validation and two checkpoints an epoch are in it. " +
    "hpctrain runs as it is typed, with all that it does unasked (its events, an offline run of W&B, checkpoints that are " +
    "read back and synced). The scripts beside it are `bench/peers/jobs.py`, of PyTorch alone, " +
    (lightning ? "and `bench/peers/jobs_lightning.py`. " : "and no more: Lightning was not there. ") +
    "They have a fused AdamW and fetch what is in memory a batch at a time; their PyTorch is what pip installs. All train the same network " +
    "with the same size of a batch: parameters and the number of steps are compared, and the job fails where they differ. Weights, order and split are drawn " +
    "otherwise, so the losses of validation are alike and not equal.",
    "Medians of the rounds, in which the sides take turns; the first of them also reads programs from the disk. Processor " +
    "time is that of all threads and processes of a job, and says more than seconds do on a machine that others use. The " +
    `column \`slower\` is the time against that of \`hpctrain\`. "${MARK}": others kept more than ${FEW} cores busy ` +
    'meanwhile, in the mean; such times are not to be relied on. "one core busy": `--busy`, beside a neighbour that never ' +
    "rests. `torch.compile` is not beside them: `bench compile` says how long its code takes to make.",
  ].join("\n\n");
}

export function jobsPage(results: JobResults): string {
  const rows = Object.values(results.rows);
  const head = [
    "Job",
    "Threads",
    "",
    "Median",
    "Rounds",
    "Slower",
    "Processor time",
    "Peak memory",
    "Validation loss",
  ];
  const commands = rows.flatMap((row) => [
    `${titleOf(row)}, ${
      row.threads === 1 ? "one thread" : `${row.threads} threads`
    } (${row.date}, ${row.cpu}, ` +
    `load ${row.load} before; ${row.steps.toLocaleString("en-US")} steps of ${row.batch}, ` +
    `${row.parameters.toLocaleString("en-US")} parameters):`,
    Object.values(row.sides).map((side) => `    ${side!.command}`).join("\n"),
  ]);
  return [
    "# Whole jobs",
    settingText(results),
    table(head, rows.flatMap(rowLines)),
    "## The command lines",
    "In a folder with the files that `bench/peers/jobs_data.py` writes, and `bench/heat.ts`; the scripts are those of " +
    "`bench/peers`.",
    ...commands,
  ].join("\n\n");
}
