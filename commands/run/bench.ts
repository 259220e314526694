// `hpctrain bench`: how fast ranks add up their gradients here, and how runs on 1 to N ranks compare.
import { parseOptions, splitOwnOptions } from "../../core/settings/options.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import { didYouMean } from "../../core/base/suggest.ts";
import { ALL_REDUCE_SIZES, type AllReduceTiming, measureAllReduce } from "../../core/ranks/team.ts";
import { BACKEND_NAMES } from "../../core/ranks/collectives.ts";
import { placeFlags, rankContext } from "../../core/ranks/context.ts";
import { withRanks } from "../../core/ranks/session.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatBytes, formatPlural, formatRate } from "../../core/base/format.ts";
import { openDevice } from "../../core/train/device.ts";
import { findRun } from "../../core/run/run_data.ts";
import { benchPrediction } from "./bench_prediction.ts";
import { OPTIONS, SETTINGS, USAGE } from "../bench.ts";
import { join } from "../../deps/path.ts";
import { ownWork } from "../../core/run/account.ts";
import { type Event, readEvents } from "../../core/run/event_log.ts";

export async function bench(argv: string[]): Promise<number> {
  const env = Deno.env.toObject();
  const { own, rest } = splitOwnOptions(argv, OPTIONS);
  const { options } = parseOptions(own, OPTIONS, USAGE);
  if (rest.includes("scaling") && options.predict !== undefined) return benchPrediction(rest, options);
  if (rest.includes("scaling") && own.length === 0) return benchScaling(rest);
  const sizes = sizesIn(options.sizes);
  const { config, origin, positionals: [what] } = resolveSettings({
    argv: rest,
    env,
    positionals: 1,
    usage: USAGE,
    takes: SETTINGS,
  });
  if (what !== "allreduce") {
    const found = what === undefined
      ? ""
      : `, but "${what}" was given.${didYouMean(what, ["allreduce", "scaling"])}`;
    throw new UserError("usage", `bench measures allreduce or scaling${found || "."} Usage: ${USAGE}`);
  }
  const where = rankContext(env, placeFlags(config.distributed));
  if (where.world === 1) {
    throw new UserError(
      "usage",
      "bench allreduce measures what ranks do together, and this is one rank alone. Start several: " +
        "hpctrain launch -n 2 -- bench allreduce, or srun hpctrain bench allreduce in an allocation.",
    );
  }
  const opened = openDevice(config, where.localRank);
  const { device } = opened;
  const { quiet, json } = config.output;
  const backendFrom = origin("distributed.backend");
  return await withRanks({ where, config, env, backendFrom, ...opened }, ({ team, notes }) => {
    const say = (line: string) => team.rank > 0 || quiet || json ? undefined : console.log(line);
    notes.forEach(say);
    const { backend } = team.collectives;
    const { world: ranks, nodes } = where;
    say(
      `All-reduce of f32 on ${formatPlural(ranks, "rank")}, ${formatPlural(nodes, "node")}, by ${
        BACKEND_NAMES[backend]
      }:`,
    );
    say(HEAD);
    const measured = measureAllReduce(team, device, sizes, (row) => say(line(row)));
    if (team.rank === 0 && json) {
      console.log(JSON.stringify({ bench: "allreduce", backend, device, ranks, nodes, notes, measured }));
    }
    return Promise.resolve(EXIT.done);
  });
}

const HEAD = row("size", "time", "algorithm", "bus");

const line = ({ bytes, seconds, algorithm, bus }: AllReduceTiming): string =>
  row(formatBytes(bytes), `${formatRate(1e6 * seconds)} us`, gigabytes(algorithm), gigabytes(bus));

const gigabytes = (perSecond: number): string => `${formatRate(perSecond / 1e9)} GB/s`;

function row(...cells: string[]): string {
  return cells.map((cell) => cell.padStart(14)).join("");
}

const UNITS: Readonly<Record<string, number>> = { "": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 };

/** "4KiB,1MB,64m": powers of 1024, as in what is printed. */
function sizesIn(text: string | undefined): readonly number[] {
  if (text === undefined) return ALL_REDUCE_SIZES;
  return text.split(",").map((word) => {
    const [, number, unit] = /^\s*(\d+)\s*([kmg]?)(?:i?b)?\s*$/i.exec(word) ?? [];
    const size = Number(number) * UNITS[(unit ?? "").toLowerCase()];
    if (size >= 4 && size <= 2 ** 36) return size;
    throw new UserError(
      "usage",
      `--sizes has "${word.trim()}" in it: sizes such as 4KiB,64KiB,16MiB are expected, from 4 bytes on.`,
    );
  });
}

// `hpctrain bench scaling RUN RUN...`: recorded runs on 1 to N ranks beside what would be ideal.

const SCALING_USAGE = "hpctrain bench scaling RUN RUN... [--save-dir DIR] [--json]";
const MOST = 1000;

function benchScaling(argv: string[]): number {
  const { config, positionals } = resolveSettings({
    argv,
    env: Deno.env.toObject(),
    positionals: MOST,
    usage: SCALING_USAGE,
  });
  const names = positionals.slice(1);
  if (names.length < 2) {
    throw new UserError(
      "usage",
      `bench scaling compares two runs or more, on different numbers of ranks. Usage: ${SCALING_USAGE}`,
    );
  }
  const speeds = names.map((name) => runSpeedOf(findRun(name, config.output.save_dir)));
  const doubt = doubts(speeds);
  const rows = scaling(speeds);
  if (config.output.json) {
    console.log(JSON.stringify({ bench: "scaling", doubt, runs: rows }));
    return EXIT.done;
  }
  if (doubt !== null) console.error(`warning: ${doubt}`);
  const width = Math.max(3, ...rows.map(({ run }) => run.length));
  const line = (first: string, ...cells: string[]) =>
    first.padEnd(width) + cells.map((cell) => cell.padStart(15)).join("");
  console.log(
    line("run", "ranks", "samples/s", "a rank", "speed-up", "ideal", "efficiency", "communication", "loader"),
  );
  for (const row of rows) console.log(line(row.run, ...cellsOf(row)));
  return EXIT.done;
}

function cellsOf(
  { ranks, samplesPerSecond, speedUp, ideal, efficiency, communication, loader }: Scaled,
): string[] {
  const percent = (share: number | null) => share === null ? "-" : `${(100 * share).toFixed(1)}%`;
  return [
    `${ranks}`,
    formatRate(samplesPerSecond),
    formatRate(samplesPerSecond / ranks),
    `${speedUp.toFixed(2)}x`,
    `${ideal.toFixed(2)}x`,
    percent(efficiency),
    percent(communication),
    percent(loader),
  ];
}

interface RunSpeed {
  readonly run: string;
  readonly ranks: number;
  readonly device: string;
  readonly model: string;
  readonly samplesPerSecond: number;
  /** Shares of the training time; null where the run did not record it. */
  readonly communication: number | null;
  readonly loader: number | null;
}

interface Scaled extends RunSpeed {
  readonly speedUp: number;
  readonly ideal: number;
  readonly efficiency: number;
}

/** After a resume on other ranks the last attempt counts. */
export function runSpeedOf(folder: string): RunSpeed {
  const all = readEvents(join(folder, "events.jsonl"));
  const begin = all.findLastIndex(({ kind }) => kind === "run");
  const events = all.slice(begin);
  const run = events[0];
  const samplesPerSecond = rateOf(events);
  if (begin < 0 || run.kind !== "run" || samplesPerSecond === null) {
    throw new UserError(
      "data",
      `${folder} does not say how fast it was: train for two epochs, or with --log-interval 10 for some seconds.`,
    );
  }
  const { run: name, world_size: ranks, device, model } = run;
  return { run: name, ranks, device, model, samplesPerSecond, ...sharesOf(events) };
}

/** The first epoch warms up; of a single epoch, the later half of the steps counts. */
function rateOf(events: readonly Event[]): number | null {
  const rates = (kind: "epoch" | "step") =>
    events.flatMap((event) => event.kind === kind && event.samples_per_s ? [event.samples_per_s] : []);
  const epochs = rates("epoch");
  if (epochs.length > 1) return median(epochs.slice(1));
  const steps = rates("step");
  return steps.length > 1 ? median(steps.slice(steps.length >> 1)) : epochs[0] ?? null;
}

/** The slowest rank's shares count where ranks are compared, otherwise rank 0's. */
function sharesOf(events: readonly Event[]): Pick<RunSpeed, "communication" | "loader"> {
  let all = 0, communication = 0, loader = 0;
  for (const event of events) {
    if (event.kind !== "times" || event.steps === 0) continue;
    communication += event.communication_s;
    loader += event.data_s;
    all += ownWork(event) + event.communication_s - event.evaluation_s - event.save_s;
  }
  return all > 0
    ? { communication: communication / all, loader: loader / all }
    : { communication: null, loader: null };
}

export function scaling(speeds: readonly RunSpeed[]): Scaled[] {
  const sorted = speeds.toSorted((a, b) => a.ranks - b.ranks || b.samplesPerSecond - a.samplesPerSecond);
  const [base] = sorted;
  return sorted.map((speed) => {
    const ideal = speed.ranks / base.ranks;
    const speedUp = speed.samplesPerSecond / base.samplesPerSecond;
    return { ...speed, speedUp, ideal, efficiency: speedUp / ideal };
  });
}

/** Returns null where the runs can be compared. */
export function doubts(speeds: readonly RunSpeed[]): string | null {
  const differ = (["model", "device"] as const).filter((key) =>
    new Set(speeds.map((one) => one[key])).size > 1
  );
  return differ.length === 0
    ? null
    : `These runs differ in ${differ.join(" and ")}: they are no measure of each other.`;
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
