// Finds a run by its name or folder and reads its files into one record for watch, report and status. Memory
// is bounded, however long the run is.
import { type BestEvaluation, evaluationIn, isBetterThan } from "./best.ts";
import { basename, dirname, join, normalize } from "../../deps/path.ts";
import {
  addSpent,
  byPart,
  type Spent,
  spentNothing,
  spentOfRank,
  type SpentOfRanks,
  TIME_PARTS,
} from "./account.ts";
import { Curve } from "./curve.ts";
import {
  type Event,
  EVENT_FIELDS,
  type ExitEvent,
  type MetricValues,
  type NonFiniteEvent,
  type RanksEvent,
  type RunEvent,
  type SaveEvent,
  type SystemEvent,
  type WarningEvent,
} from "./events.ts";
import { EventFollower } from "./event_log.ts";
import { bestAttempt, type Lineage, lineageNow } from "./lineage.ts";
import { messageOf, UserError } from "../base/errors.ts";

/** Other programs may have written the logs. */
const MOST_CURVES = 200;
const MOST_RANKS = 1024;
const RECENT = 256;
const WARNINGS = 50;
/** Each rank has such curves, so they have fewer stretches. */
const FINE = 512;

interface RanksTimes {
  readonly spent: readonly Spent[];
  steps: number;
}

export interface RunData {
  readonly folder: string;
  name: string;
  run: (RunEvent & { t: number }) | null;
  /** Unix seconds of the first and the last event. */
  begunAt: number | null;
  lastAt: number | null;
  log: { readonly at: number; readonly bytes: number } | null;
  longestSilence: number;
  config: Readonly<Record<string, unknown>>;
  origins: Readonly<Record<string, string>>;
  /** Evaluations are "val_...", epochs "train_...". */
  readonly curves: Map<string, Curve>;
  /** They lack "val_"; metrics of single targets or classes, "r2/NAME", are only curves. */
  readonly metrics: Set<string>;
  step: number;
  epoch: number;
  stepsPerEpoch: number | null;
  readonly recent: { t: number; step: number }[];
  best: BestEvaluation | null;
  /** The best evaluation has them. */
  bestMetrics: MetricValues;
  /** The number of samples in the last evaluation. */
  validated: number | null;
  /** The last attempt ended here. */
  nonFinite: NonFiniteEvent | null;
  ranks: (RanksEvent & { t: number }) | null;
  /** Null with one rank. */
  ranksTotal: RanksTimes | null;
  /** `timeOfSteps` leaves out the time without a step. */
  readonly time: Spent;
  readonly timeOfSteps: Spent;
  timesSteps: number;
  /** Both have a rank as their last key. */
  readonly system: Map<number, SystemEvent & { t: number }>;
  readonly systemCurves: Map<string, Map<number, Curve>>;
  /** The last line about compiled steps. */
  compiled: string | null;
  saves: number;
  stallSeconds: number;
  lastSave: (SaveEvent & { t: number }) | null;
  /** `warningCount` counts all, and these are the last. */
  readonly warnings: (WarningEvent & { t: number })[];
  warningCount: number;
  memory: (WarningEvent & { t: number }) | null;
  exit: (ExitEvent & { t: number }) | null;
  /** Very many events were left out: counts and sums are partial. */
  sampled: boolean;
  lineage: Lineage | null;
  /** Set where the lineage is damaged. */
  lineageError: string | null;
}

export interface RunReader {
  /** Another object after a resume has rewritten the log. */
  readonly data: RunData;
  /** Returns true where there were new events. */
  poll(): boolean;
  close(): void;
}

/** `sample` reads only parts of a long log. */
export function openRun(folder: string, { sample = false } = {}): RunReader {
  let data = emptyRun(folder);
  const again = () => {
    data = emptyRun(folder);
    for (const other of others.values()) other.close(); // they are read again from their begin
    others.clear();
  };
  const leftOut = () => {
    // Later events may have replaced these values.
    Object.assign(data, { sampled: true, exit: null, memory: null, lastAt: null });
    data.recent.length = 0;
  };
  const main = new EventFollower(
    join(folder, "events.jsonl"),
    (event) => applyEvent(data, event),
    again,
    sample ? leftOut : null,
  );
  const others = new Map<string, EventFollower>();
  return {
    get data() {
      return data;
    },
    poll() {
      let found = main.poll();
      data.log = logOf(folder);
      for (const name of rankFiles(folder)) {
        const other = others.get(name) ?? new EventFollower(
          join(folder, name),
          (event) => applyRankEvent(data, name, event),
          () => {},
          sample ? () => {} : null,
        );
        others.set(name, other);
        found = other.poll() || found;
      }
      try {
        data.lineage = lineageNow(folder);
        data.lineageError = null;
        if (data.sampled) addLineage(data);
      } catch (error) {
        data.lineageError = messageOf(error);
      }
      return found;
    },
    close() {
      main.close();
      for (const other of others.values()) other.close();
    },
  };
}

export function readRun(folder: string): RunData {
  const reader = openRun(folder);
  try {
    reader.poll();
    return reader.data;
  } finally {
    reader.close();
  }
}

/** Skipped events may have had the process, the best loss and the time of saves. */
function addLineage(data: RunData): void {
  const attempts = data.lineage?.attempts ?? [], last = attempts.at(-1);
  if (last && data.run) data.run = { ...data.run, host: last.host, pid: last.pid };
  if (last) data.stallSeconds = attempts.reduce((sum, { lost }) => sum + lost.save_stall_s, 0);
  if (!attempts.some(({ best }) => best)) data.best = null; // of those read it need not be
  const kept = bestAttempt(attempts);
  if (kept && isBetterThan(kept, data.best)) data.best = kept;
}

function logOf(folder: string): RunData["log"] {
  try {
    const { mtime, size } = Deno.statSync(join(folder, "events.jsonl"));
    return { at: (mtime?.getTime() ?? 0) / 1000, bytes: size };
  } catch {
    return null; // not there yet
  }
}

const RANK_FILE = /^system-(\d+)\.jsonl$/;

function rankFiles(folder: string): string[] {
  try {
    return [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) => RANK_FILE.test(name))
      .slice(0, MOST_RANKS);
  } catch {
    return [];
  }
}

function emptyRun(folder: string): RunData {
  return {
    folder,
    name: folder.split("/").at(-1) || folder,
    run: null,
    begunAt: null,
    lastAt: null,
    log: null,
    longestSilence: 0,
    config: {},
    origins: {},
    curves: new Map(),
    metrics: new Set(),
    step: 0,
    epoch: 0,
    stepsPerEpoch: null,
    recent: [],
    best: null,
    bestMetrics: {},
    validated: null,
    nonFinite: null,
    ranks: null,
    ranksTotal: null,
    time: spentNothing(),
    timeOfSteps: spentNothing(),
    timesSteps: 0,
    system: new Map(),
    systemCurves: new Map(),
    compiled: null,
    saves: 0,
    stallSeconds: 0,
    lastSave: null,
    warnings: [],
    warningCount: 0,
    memory: null,
    exit: null,
    sampled: false,
    lineage: null,
    lineageError: null,
  };
}

/** Another program may have written the file, so only the kind of an event is certain. */
function applyEvent(data: RunData, event: Event): void {
  if (data.lastAt !== null && event.t > data.lastAt && data.exit === null) {
    data.longestSilence = Math.max(data.longestSilence, event.t - data.lastAt);
  }
  data.begunAt ??= event.t;
  data.lastAt = Math.max(data.lastAt ?? event.t, event.t);
  EVENT_HANDLERS[event.kind]?.(data, event as never);
}

const EVENT_HANDLERS: { [K in Event["kind"]]?: (data: RunData, event: Extract<Event, { kind: K }>) => void } =
  {
    run(data, event) {
      data.run = event;
      data.name = String(event.run);
      data.exit = null;
      data.nonFinite = null;
      data.memory = null;
      data.recent.length = 0;
      data.longestSilence = 0;
      data.system.clear();
      if (isNumber(event.steps_per_epoch) && event.steps_per_epoch > 0) {
        data.stepsPerEpoch = event.steps_per_epoch;
      }
    },
    config(data, event) {
      if (isRecord(event.config)) data.config = event.config;
      if (isRecord(event.origins)) data.origins = event.origins;
    },
    step(data, event) {
      if (!isNumber(event.step)) return;
      advance(data, event);
      data.recent.push({ t: event.t, step: event.step });
      if (data.recent.length > RECENT) data.recent.splice(0, RECENT / 2);
      addNumbers(data, event.step, event, "");
    },
    eval(data, event) {
      if (!isNumber(event.step)) return;
      advance(data, event);
      if (isNumber(event.samples)) data.validated = event.samples;
      if (isNumber(event.val_loss)) addTo(data, "val_loss", event.step, event.val_loss);
      const one = evaluationIn(event);
      if (one && isBetterThan(one, data.best)) {
        data.best = one;
        data.bestMetrics = isRecord(event.metrics) ? event.metrics : {};
      }
      if (!isRecord(event.metrics)) return;
      for (const name of Object.keys(event.metrics)) {
        if (data.metrics.size < MOST_CURVES && !name.includes("/")) data.metrics.add(name);
      }
      addNumbers(data, event.step, event.metrics, "val_");
    },
    epoch(data, event) {
      if (!isNumber(event.step) || !isNumber(event.epoch)) return;
      advance(data, event);
      if (event.epoch > 0 && event.step > 0) data.stepsPerEpoch = Math.round(event.step / event.epoch);
      if (isNumber(event.loss)) addTo(data, "epoch_loss", event.step, event.loss);
      if (isRecord(event.metrics)) addNumbers(data, event.step, event.metrics, "train_");
    },
    save(data, event) {
      data.saves++;
      data.lastSave = event;
      if (isNumber(event.stall_s)) data.stallSeconds += event.stall_s;
    },
    resume(data, event) {
      if (!isNumber(event.step)) return;
      for (const curve of data.curves.values()) curve.cut(event.step + 1);
      for (const curves of data.systemCurves.values()) {
        for (const curve of curves.values()) curve.cut(event.step + 1);
      }
      data.step = event.step;
      data.epoch = event.epoch;
      data.recent.length = 0;
    },
    system: (data, event) => applySystemEvent(data, event, rankOf(event) ?? 0),
    ranks(data, event) {
      const spent = ofRanks(event);
      if (spent === null) return;
      data.ranks = { ...event, ...spent };
      const ranks = spent.data_s.length;
      if (data.ranksTotal === null || data.ranksTotal.spent.length !== ranks) {
        data.ranksTotal = { spent: Array.from({ length: ranks }, spentNothing), steps: 0 };
      }
      data.ranksTotal.steps += event.steps;
      data.ranksTotal.spent.forEach((sum, rank) => addSpent(sum, spentOfRank(spent, rank)));
      if (isNumber(event.spread)) addTo(data, "ranks_spread", event.step, event.spread);
    },
    times(data, event) {
      if (!isNumber(event.step) || !isNumber(event.steps) || !(event.steps >= 0)) return;
      addSpent(data.time, event);
      if (event.steps === 0) return;
      addSpent(data.timeOfSteps, event);
      data.timesSteps += event.steps;
      for (const [field, value] of Object.entries(event)) {
        if (!isNumber(value) || UNMEASURED.has(field) || field in EVENT_FIELDS.step && !isTimePart(field)) {
          continue;
        }
        if (!isTimePart(field)) addTo(data, field, event.step, value);
        else addTo(data, `time_${field.slice(0, -2)}`, event.step, value / event.steps);
      }
    },
    compiled(data, event) {
      data.compiled = String(event.message);
    },
    rewind(data, event) {
      const message = `Went back from step ${event.step} to ${event.to_step}: ${event.reason}`;
      EVENT_HANDLERS.warning!(data, { kind: "warning", t: event.t, step: event.step, message });
    },
    warning(data, event) {
      data.warningCount++;
      data.warnings.push({ ...event, message: String(event.message) });
      if (event.about === "memory") data.memory = event;
      if (data.warnings.length > WARNINGS) data.warnings.shift();
    },
    non_finite(data, event) {
      if (!isNumber(event.step)) return;
      data.nonFinite = event;
      addTo(data, "loss", event.step, NaN);
    },
    exit(data, event) {
      data.exit = { ...event, message: String(event.message) };
      if (isNumber(event.step)) advance(data, event);
    },
  };

function applyRankEvent(data: RunData, name: string, event: Event): void {
  if (event.kind === "system") {
    applySystemEvent(data, event, rankOf(event) ?? Number(RANK_FILE.exec(name)![1]));
  }
}

const rankOf = (event: object): number | undefined => {
  const { rank } = event as { rank?: unknown };
  return isNumber(rank) && rank >= 0 && rank < MOST_RANKS ? rank : undefined;
};

function applySystemEvent(data: RunData, event: SystemEvent & { t: number }, rank: number): void {
  if (!isNumber(event.step)) return;
  data.system.set(rank, event);
  for (const [field, value] of Object.entries(event)) {
    if (UNMEASURED.has(field) || typeof value !== "number") continue;
    let ranks = data.systemCurves.get(field);
    if (!ranks) {
      if (data.systemCurves.size >= MOST_CURVES) continue;
      data.systemCurves.set(field, ranks = new Map());
    }
    const curve = ranks.get(rank) ?? new Curve(FINE);
    ranks.set(rank, curve);
    // A rank may report several times at one step: the curve keeps one.
    if (event.step > curve.lastStep) curve.add(event.step, value);
  }
}

/** Other versions have more parts. */
const isTimePart = (field: string): boolean => field.endsWith("_s") && !field.endsWith("_per_s");

/** Null where it is not our format. Logs of other versions may lack a part. */
function ofRanks(event: RanksEvent): SpentOfRanks | null {
  const given = TIME_PARTS.map((name) => event[`${name}_s`] ?? []);
  if (!given.every((list) => Array.isArray(list) && list.length <= MOST_RANKS && list.every(isNumber))) {
    return null;
  }
  const ranks = Math.max(...given.map((list) => list.length));
  const whole = given.map((list) => Array.from({ length: ranks }, (_, rank) => list[rank] ?? 0));
  return byPart((_, i) => whole[i]);
}

const UNMEASURED = new Set(["t", "kind", "step", "epoch", "rank", "steps", "seconds"]);

function addNumbers(data: RunData, step: number, from: object, prefix: string): void {
  for (const [field, value] of Object.entries(from)) {
    if (typeof value === "number" && (prefix !== "" || !UNMEASURED.has(field))) {
      addTo(data, prefix + field, step, value);
    }
  }
}

function addTo({ curves }: RunData, name: string, step: number, value: number): void {
  let curve = curves.get(name);
  if (!curve) {
    if (curves.size >= MOST_CURVES) return;
    curves.set(name, curve = new Curve());
  }
  curve.add(step, value);
}

function advance(data: RunData, { step, epoch }: { step: number; epoch: number }): void {
  data.step = step;
  if (isNumber(epoch)) data.epoch = epoch;
}

const isNumber = (value: unknown): value is number => typeof value === "number";
const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const NEWEST_RUN = "newest";

/** `word` is a run's name, its folder or "newest", and `saveDir` the parent of logs/. */
export function findRun(word: string, saveDir = "."): string {
  const logs = join(saveDir, "logs");
  if (word === NEWEST_RUN && !hasEvents(join(logs, word))) return newest(logs);
  const places = [join(logs, word), word, join(word, "logs")];
  if (basename(word) === "events.jsonl") places.unshift(dirname(word));
  for (const place of places.map((one): string => normalize(one))) {
    if (hasEvents(place)) return place.replace(/(.)\/$/, "$1");
  }
  const known = runsIn(logs);
  const hint = known.length === 0
    ? `There is no run below ${logs}; --save-dir DIR names the folder that a run was given.`
    : `The runs there are ${known.slice(0, 8).map(({ name }) => name).join(", ")}${
      known.length > 8 ? ", ..." : ""
    }.`;
  throw new UserError(
    "usage",
    `${word} is no run: neither ${join(logs, word)} nor ${word} has an events.jsonl. ${hint}`,
  );
}

function newest(logs: string): string {
  const [found] = runsIn(logs);
  if (found) return join(logs, found.name);
  throw new UserError(
    "usage",
    `There is no run below ${logs}. Name a run's folder, or with --save-dir DIR the folder that it was given.`,
  );
}

/** The newest first. */
export function runsIn(logs: string): { name: string; written: number }[] {
  let names: string[];
  try {
    names = [...Deno.readDirSync(logs)].map(({ name }) => name);
  } catch {
    return []; // no such folder
  }
  return names.flatMap((name) => {
    const written = writtenAt(join(logs, name, "events.jsonl"));
    return written === null ? [] : [{ name, written }];
  }).sort((a, b) => b.written - a.written);
}

const hasEvents = (folder: string): boolean => writtenAt(join(folder, "events.jsonl")) !== null;

function writtenAt(path: string): number | null {
  try {
    const { isFile, mtime } = Deno.statSync(path);
    return isFile ? mtime?.getTime() ?? 0 : null;
  } catch {
    return null;
  }
}
