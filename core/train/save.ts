// Saves checkpoints beside training, whole or each rank its part.
import { join } from "../../deps/path.ts";
import { failBeyondFileLimit } from "../../ffi/signals.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import {
  awaitFlag,
  newFlag,
  saveContent,
  type SaveJob,
  writeCheckpoint,
  type WriteResult,
} from "../checkpoint/background/job.ts";
import { openSnapshot, openWriter, type Snapshot, type Writer } from "../checkpoint/background/writer.ts";
import { type Cursor, type StateParts, tensorsOf, toData, toTree } from "../checkpoint/training_state.ts";
import type { Storage } from "../checkpoint/value.ts";
import type { BestFiles } from "../checkpoint/best_files.ts";
import { type EpochFiles, epochName } from "../checkpoint/epoch_files.ts";
import { freeMemory } from "../base/memory.ts";
import { UserError } from "../base/errors.ts";
import { formatBytes } from "../base/format.ts";
import { valuesWithoutSecrets } from "../base/secrets.ts";
import { VERSION } from "../base/version.ts";
import { checkedDuration } from "../settings/setting.ts";
import { releaseName } from "./claim.ts";
import type { DataFacts } from "./data_facts.ts";
import { openHolder } from "./held_state.ts";
import type { Lend } from "./leaving.ts";
import { latestPath, type RunPaths } from "./run_folder.ts";
import type { Sharing } from "./sharing.ts";
import { torchState } from "./torch_scheduler.ts";
import type { Course } from "./schedules/course.ts";
import type { Run } from "./launch.ts";

// A snapshot is made between two steps, and a thread writes it while training goes on.

/** It has what a checkpoint says of its run, but for what only the moment of the save tells. */
interface Context extends Pick<Run, "config" | "cursor" | "events" | "console" | "warn"> {
  readonly facts: DataFacts;
  readonly wandb: string | null;
  readonly paths: RunPaths;
  readonly parts: StateParts;
  readonly schedule: Course;
  /** Puts the optimizer's state where `parts` has it, on every rank. */
  readonly gather?: () => void;
  /** Null where this rank writes all. */
  readonly sharing?: Sharing | null;
}

export interface Saver {
  /** Called when the first step is over. */
  ready(): void;
  /** The file is there when `settle` returns. `best`: this state's evaluation is among the best that are kept. */
  save(reason: string, best: boolean): Promise<void>;
  /**
   * At an epoch's end: true where its save waits for a later one, since the last one was made within this second. The best state
   * is held until then.
   */
  putOff(best: boolean): Promise<boolean>;
  /** Called before the state changes: a save may still be copying it. */
  hold(): void;
  /** Throws if the newest state could not be saved. */
  settle(): Promise<void>;
  /** The thread that has written the last save is free for something else, and goes on when this is closed. */
  readonly lend: Lend;
  readonly stats: { saves: number; stallSeconds: number; longest: number };
  /** Waits for the save under way, ignores its failure, and gives the run's name back. */
  close(): Promise<void>;
}

/** A larger state is written while training waits. */
const MOST_OF_FREE = 0.5;

/** Epochs that are shorter are not saved one by one: a kill may lose so much. */
const OFTEN_MS = 1000;

/** A failing disk gets a warning this often. */
const WARN_MS = 600_000;

export function openSaver(c: Context): Saver {
  const { cursor, events, warn, sharing } = c;
  failBeyondFileLimit();
  const background = openBackground(c);
  const stats = { saves: 0, stallSeconds: 0, longest: 0 };
  let writing: Writing | null = null;
  let failed: Error | null = null; // set while the newest state is not saved
  let warnedAt = -Infinity;
  const holder = background && !sharing && savesAnyTime(c.config) ? openHolder(c.parts, cursor) : null;
  let savedAt = -Infinity, endedAt = performance.now();

  const fail = (error: Error, step: number) => {
    failed = error;
    if (!ofTheDisk(error) || performance.now() - warnedAt < WARN_MS) return;
    warnedAt = performance.now();
    warn(`The save at step ${step} failed, and training goes on without it: ${error.message}`, step, "save");
  };
  const wait = async () => {
    if (writing !== null) await (sharing ? sharing.patiently(writing.done) : writing.done);
    if (failed && !ofTheDisk(failed)) throw failed;
  };
  const write = async (of: Context, reason: string, best: boolean, snapshot: Snapshot | null) => {
    const began = performance.now();
    events.flush();
    await wait();
    if (reason !== "interval") sharing?.busy(false); // the last save's parts are never mixed with these
    c.gather?.();
    const held = () => (performance.now() - began) / 1000;
    const { step, epoch } = of.cursor;
    const job = jobOf(of, reason, best, snapshot);
    snapshot?.settle();
    const now: Writing = { step, copied: job.copied, stall: held(), leftOut: false, done: Promise.resolve() };
    const written = background ? background.writer.write(job) : writeNow(job);
    now.done = written.then(({ bytes, seconds }) => {
      failed = null;
      stats.saves++;
      if (background === null) now.stall = held();
      stats.stallSeconds += now.stall;
      stats.longest = Math.max(stats.longest, (performance.now() - began) / 1000);
      const { path } = job, why = best ? "best" : reason;
      events.emit({ kind: "save", step, epoch, path, bytes, seconds, stall_s: now.stall, reason: why });
    }, (error) => fail(error, step)).finally(() => writing = null);
    writing = now;
    if (background === null) await wait();
  };
  const writeHeld = async () => {
    const held = holder?.take() ?? null;
    if (held !== null) await write({ ...c, ...held }, "epoch", true, null);
  };
  return {
    stats,
    lend: (module) => background?.writer.lend(module) ?? null,
    ready: () => background?.writer.ready(),
    async save(reason, best) {
      // Gathered state has no copy, so the last save has to be over.
      const busy = () => sharing?.busy(writing !== null) ?? writing !== null;
      if (reason === "interval" && !c.gather && busy()) {
        return leaveOut(c, writing);
      }
      if (best) holder?.take(); // there is a better one
      else await writeHeld();
      savedAt = performance.now();
      await write(c, reason, best, background?.snapshot ?? null);
    },
    async putOff(best) {
      const now = performance.now(), next = now + (now - endedAt), late = next - savedAt;
      endedAt = now;
      if (holder === null) return false;
      if (late <= OFTEN_MS) {
        if (best) holder.hold();
        return true;
      }
      if (best) return false;
      if (holder.holds) { // it comes first, and this state, or a later one, when it is written
        await writeHeld();
        return true;
      }
      return writing !== null && late <= 2 * OFTEN_MS;
    },
    hold() {
      if (writing === null || writing.copied === null) return;
      const began = performance.now();
      awaitFlag(writing.copied);
      writing.copied = null;
      writing.stall += (performance.now() - began) / 1000;
    },
    async settle() {
      await wait();
      if (failed) throw failed;
    },
    async close() {
      sharing?.end();
      await writing?.done;
      await writeHeld().catch(() => {}); // a run that fails keeps the best that it had
      await writing?.done;
      background?.writer.close();
      if ((sharing?.rank ?? 0) === 0) releaseName(c.paths);
    },
  };
}

/** An interval's save comes while the one before it is still being written. */
function leaveOut({ cursor, console, events }: Context, writing: Writing | null): void {
  if (writing === null || writing.leftOut) return; // one line for each slow save
  writing.leftOut = true;
  const { step } = cursor;
  const message = `Save at step ${step} left out: the one of step ${writing.step} is still being written`;
  console.line(message);
  events.emit({ kind: "warning", step, message });
}

interface Writing {
  readonly step: number;
  done: Promise<void>;
  /** Set until the copies are known to be made. */
  copied: SharedArrayBuffer | null;
  /** Seconds. */
  stall: number;
  /** A save was skipped because of it. */
  leftOut: boolean;
}

const ofTheDisk = (error: Error) => error instanceof UserError && error.kind === "checkpoint";

// deno-lint-ignore require-await -- an error is a rejection, as the thread's is
const writeNow = async (job: SaveJob): Promise<WriteResult> => writeCheckpoint(job);

/** Null where there is no memory for a second state. */
function openBackground(
  { parts, console: { warn }, gather, sharing }: Context,
): { snapshot: Snapshot; writer: Writer } | null {
  const tensors = sharing?.owned ?? new Set(tensorsOf(parts));
  const gathered = new Set(gather ? [...parts.optimizer.slots.values()].flat() : []);
  const bytes = [...tensors].reduce((sum, t) => sum + (gathered.has(t) ? 0 : t.byteLength), 0);
  if (bytes > MOST_OF_FREE * freeMemory()) {
    warn(
      `A copy of the training state would take ${
        formatBytes(bytes)
      } of memory, more than half of what is free: ` +
        "training waits for each save instead of going on beside it.",
    );
    return null;
  }
  const snapshot = openSnapshot(tensors, changedByUpdates(parts), gathered);
  return { snapshot, writer: openWriter(snapshot.places) };
}

/** Nobody has asked for saves at certain epochs, and training never goes back to one. */
const savesAnyTime = ({ output, training }: Context["config"]): boolean =>
  !output.save_every_epoch && output.keep_best === 1 && training.on_spike !== "rewind" &&
  checkedDuration(training.save_interval).count === 0;

/** Running statistics change in the forward pass. */
function changedByUpdates({ names, stateDict, optimizer, ema }: StateParts): Set<Tensor> {
  const parameters = new Set(names);
  return new Set([
    ...stateDict.filter(([name]) => parameters.has(name)).map(([, t]) => t),
    ...[...optimizer.slots.values()].flat(),
    ...(ema ?? []).map(([, t]) => t),
  ]);
}

function jobOf(
  context: Context,
  reason: string,
  best: boolean,
  snapshot: Snapshot | null,
): SaveJob {
  const { config, paths, parts, cursor, schedule, sharing } = context;
  const { save_every_epoch, keep_last } = config.output;
  const ofEpoch = save_every_epoch && reason === "epoch" && cursor.stepInEpoch === 0
    ? epochFiles(paths, cursor.epoch, keep_last)
    : null;
  const own = sharing?.open(snapshot?.data ?? toData);
  const tree = toTree(parts, cursor, {
    ...context.facts,
    wandb: context.wandb,
    version: VERSION,
    run: paths.run,
    seed: config.training.seed,
    learningRate: schedule.rate(cursor),
    scheduler: torchState(schedule, cursor, {
      factors: parts.optimizer.groups?.factors ?? [1],
      stepSize: config.training.scheduler.step_size,
      usesBeta: "betas" in parts.optimizer.options,
    }),
    config: valuesWithoutSecrets(config),
  }, own?.data ?? snapshot?.data);
  const place = (storage: Storage) => snapshot?.placeOf(storage) ?? storage.read(0, storage.byteLength);
  const path = latestPath(paths);
  const common = {
    copies: snapshot?.takeCopies() ?? [],
    copied: newFlag(),
    path,
    links: ofEpoch ? [epochPath(paths, cursor.epoch)] : [],
    ofEpoch,
    best: best ? bestFiles(paths, cursor) : null,
  };
  if (sharing && own) {
    return { ...common, ...own.partOf(tree, path, place), ...(sharing.rank > 0 ? ALONE : {}) };
  }
  return { ...common, ...saveContent(tree, { path, parameters: parts.names, place }) };
}

/** Only the first rank links and removes files. */
const ALONE = { links: [], ofEpoch: null, best: null };

const bestFiles = (
  { checkpoints: folder, run, ending }: RunPaths,
  { step, epoch, judged }: Cursor,
): BestFiles => ({
  ...{ folder, run, ending, step },
  kept: judged?.kept ?? [{ step, epoch, within: false }],
  several: judged?.several ?? false,
});

export const epochPath = (p: RunPaths, epoch: number): string =>
  join(p.checkpoints, epochName(p.run, epoch, p.ending));

const epochFiles = (
  { checkpoints: folder, run, ending, older }: RunPaths,
  epoch: number,
  keep: number,
): EpochFiles => ({ folder, run, epoch, ending, keep, older });
