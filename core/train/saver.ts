// Saves checkpoints: the latest always, the best when it is one, an epoch's own when asked. A snapshot is made between
// two steps, and a thread copies and writes it while training goes on, up to the next update for the copying.
// May import ffi, checkpoint, track, its siblings.
import { failBeyondFileLimit } from "../../ffi/signals.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { awaitFlag, type Job, newFlag, write, type Written } from "../checkpoint/background/job.ts";
import { openSnapshot, type Snapshot } from "../checkpoint/background/snapshot.ts";
import { openWriter, type Writer } from "../checkpoint/background/writer.ts";
import { writePickle } from "../checkpoint/pickle_writer.ts";
import { toData } from "../checkpoint/tensors.ts";
import { type Cursor, type Parts, tensorsOf, toTree } from "../checkpoint/training_state.ts";
import type { Key, Storage, TensorData, Value } from "../checkpoint/value.ts";
import type { Config } from "../config/settings.ts";
import { freeMemory } from "../memory.ts";
import type { Normalisation } from "../data/transforms/values.ts";
import { UserError } from "../errors.ts";
import { formatBytes } from "../format.ts";
import type { Console } from "../track/console.ts";
import type { EventLog } from "../track/events.ts";
import { VERSION } from "../version.ts";
import type { Answers } from "./known.ts";
import { bestPath, epochPath, latestPath, type Places } from "./names.ts";
import type { Sharing } from "./parallel/sharing.ts";
import { learningRate, type Schedule } from "./schedule.ts";

interface Context {
  readonly config: Config;
  readonly places: Places;
  readonly parts: Parts;
  readonly cursor: Cursor;
  readonly schedule: Schedule;
  readonly events: EventLog;
  readonly console: Console;
  /** The id of the run at W&B. */
  readonly wandb?: string | null;
  /** What the samples are normalised with. */
  readonly normalisation?: Normalisation | null;
  /** What the model answers. */
  readonly answers?: Answers;
  /** Puts the optimizer's state, which is elsewhere, where `parts` has it. Every rank does it at each save. */
  readonly gather?: () => void;
  /** Set where every rank writes its part; else this one writes all. */
  readonly sharing?: Sharing | null;
}

export interface Saver {
  /** Starts what the first save needs; to be called when the first step is over, which comes sooner without. */
  ready(): void;
  /** Saves the state of now. Training may go on when this comes to its end; the file is there when `settle` does. */
  save(reason: string, better: boolean): Promise<void>;
  /** To be called before the weights, the optimizer's state or the averages change: a save may still be copying them. */
  hold(): void;
  /** Waits for what is being written. Throws if the newest state that was to be saved could not be. */
  settle(): Promise<void>;
  /** What was saved, how long training was held by it, and the seconds from the beginning to the end of the longest. */
  readonly told: { saves: number; stallSeconds: number; longest: number };
  /** Waits for what is being written, whatever becomes of it. */
  close(): Promise<void>;
}

/** A state that takes more of the free memory than this is written while training waits. */
const MOST_OF_FREE = 0.5;
/** A failing disk is told about this often. */
const WARN_MS = 600_000;

export function openSaver(c: Context): Saver {
  const { cursor, events, console, sharing } = c;
  failBeyondFileLimit();
  const background = openBackground(c);
  const told = { saves: 0, stallSeconds: 0, longest: 0 };
  let writing: Writing | null = null;
  let failed: Error | null = null; // why the newest state is not saved
  let warnedAt = -Infinity;

  const fail = (error: Error, step: number) => {
    failed = error;
    if (!ofTheDisk(error) || performance.now() - warnedAt < WARN_MS) return;
    warnedAt = performance.now();
    const message = `The save at step ${step} failed, and training goes on without it: ${error.message}`;
    console.warn(message);
    events.emit({ kind: "warning", step, message, about: "save" });
  };
  const wait = async () => {
    if (writing !== null) await (sharing ? sharing.patiently(writing.done) : writing.done);
    if (failed && !ofTheDisk(failed)) throw failed;
  };
  return {
    told,
    ready: () => background?.writer.ready(),
    async save(reason, better) {
      // What is gathered is written from where it lies: the last save has to be over, on whichever rank it is.
      const busy = () => sharing?.busy(writing !== null) ?? writing !== null;
      if (reason === "interval" && !c.gather && busy()) {
        if (writing === null || writing.leftOut) return; // one line for each slow save, however short the interval
        writing.leftOut = true;
        const message =
          `Save at step ${cursor.step} left out: the one of step ${writing.step} is still being written`;
        console.line(message);
        return events.emit({ kind: "warning", step: cursor.step, message });
      }
      const began = performance.now();
      events.flush();
      await wait();
      if (reason !== "interval") sharing?.busy(false); // a part of this save never meets one of the last
      c.gather?.();
      const held = () => (performance.now() - began) / 1000;
      const { step, epoch } = cursor;
      const job = jobOf(c, reason, better, background?.snapshot ?? null);
      background?.snapshot.settle();
      const now: Writing = {
        step,
        copied: job.copied,
        stall: held(),
        leftOut: false,
        done: Promise.resolve(),
      };
      const written = background ? background.writer.write(job) : writeHere(job);
      now.done = written.then(({ bytes, seconds }) => {
        failed = null;
        told.saves++;
        if (background === null) now.stall = held();
        told.stallSeconds += now.stall;
        told.longest = Math.max(told.longest, (performance.now() - began) / 1000);
        const { path } = job, why = better ? "best" : reason;
        events.emit({ kind: "save", step, epoch, path, bytes, seconds, stall_s: now.stall, reason: why });
      }, (error) => fail(error, step)).finally(() => writing = null);
      writing = now;
      if (background === null) await wait();
    },
    hold() {
      if (writing === null || writing.copied === null) return;
      const began = performance.now();
      awaitFlag(writing.copied);
      writing.copied = null; // once is enough
      writing.stall += (performance.now() - began) / 1000;
    },
    async settle() {
      await wait();
      if (failed) throw failed;
    },
    async close() {
      sharing?.end();
      await writing?.done;
      background?.writer.close();
    },
  };
}

interface Writing {
  readonly step: number;
  done: Promise<void>;
  /** Set until the copies are known to be made. */
  copied: SharedArrayBuffer | null;
  /** Seconds that training was held. */
  stall: number;
  /** Whether a save was left out because of it. */
  leftOut: boolean;
}

/** Training can go on without a save, and the next one may succeed. */
const ofTheDisk = (error: Error) => error instanceof UserError && error.kind === "checkpoint";

// deno-lint-ignore require-await -- an error is a rejection, as the thread's is
const writeHere = async (job: Job): Promise<Written> => write(job);

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

/** Parameters, their averages and the optimizer's state. Running statistics change in the forward pass. */
function changedByUpdates({ names, stateDict, optimizer, ema }: Parts): Set<Tensor> {
  const parameters = new Set(names);
  return new Set([
    ...stateDict.filter(([name]) => parameters.has(name)).map(([, t]) => t),
    ...[...optimizer.slots.values()].flat(),
    ...(ema ?? []).map(([, t]) => t),
  ]);
}

function jobOf(
  { config, places, parts, cursor, schedule, sharing, wandb, normalisation, answers }: Context,
  reason: string,
  better: boolean,
  snapshot: Snapshot | null,
): Job {
  const { save_every_epoch, keep_last } = config.output;
  const ofEpoch = save_every_epoch && reason === "epoch" && cursor.stepInEpoch === 0;
  const own = sharing?.open(snapshot?.data ?? toData);
  const tree = toTree(parts, cursor, {
    version: VERSION,
    run: places.run,
    seed: config.training.seed,
    learningRate: learningRate(schedule, cursor.step),
    scheduler: schedule,
    config,
    wandb,
    normalisation,
    answers,
  }, own?.data ?? snapshot?.data);
  const place = (storage: Storage) => snapshot?.placeOf(storage) ?? storage.read(0, storage.byteLength);
  const path = latestPath(places);
  const common = {
    copies: snapshot?.takeCopies() ?? [],
    copied: newFlag(),
    path,
    links: [...(better ? [bestPath(places)] : []), ...(ofEpoch ? [epochPath(places, cursor.epoch)] : [])],
    retire: ofEpoch && keep_last > 0
      ? { folder: places.checkpoints, keep: keep_last, epoch: cursor.epoch }
      : null,
  };
  if (own) return { ...common, ...own.partOf(tree, path, place), ...(sharing!.rank > 0 ? ALONE : {}) };
  const { bytes: pickle, storages } = writePickle(tree);
  const finite = weightsIn(tree, storages, parts.names);
  return { ...common, pickle, storages: storages.map(place), finite };
}

/** What a rank writes that is not the first: its part, and nothing that is the checkpoint's. */
const ALONE = { links: [], retire: null };

function weightsIn(tree: Value, storages: readonly Storage[], names: readonly string[]): Job["finite"] {
  const weights = (tree as Map<Key, Value>).get("model_state_dict") as Map<Key, TensorData>;
  const numbers = new Map(storages.map((storage, number) => [storage, number]));
  return names.map((name) => ({ name, data: weights.get(name)! }))
    .filter(({ data }) => data.dtype === "f32")
    .map(({ name, data }) => ({ name, storage: numbers.get(data.storage)! }));
}
