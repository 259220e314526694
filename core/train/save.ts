// Saves checkpoints beside training, whole or each rank its part.
import { failBeyondFileLimit } from "../../ffi/signals.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import {
  awaitFlag,
  contentOf,
  newFlag,
  partOf,
  type SaveJob,
  type StoragePlace,
  writeCheckpoint,
  type Written,
} from "../checkpoint/background/job.ts";
import { openSnapshot, openWriter, type Snapshot, type Writer } from "../checkpoint/background/writer.ts";
import {
  type Cursor,
  type Facts,
  type Parts,
  tensorsOf,
  toData,
  toTree,
} from "../checkpoint/training_state.ts";
import { type Storage, TensorData, type Value } from "../checkpoint/value.ts";
import type { Config } from "../settings/settings.ts";
import { freeMemory } from "../base/memory.ts";
import { UserError } from "../base/errors.ts";
import { formatBytes } from "../base/format.ts";
import type { Console } from "../run/console.ts";
import type { EventLog } from "../run/event_log.ts";
import { valuesWithoutSecrets } from "../base/secrets.ts";
import { VERSION } from "../base/version.ts";
import { release } from "./claim.ts";
import { bestPath, epochFiles, epochPath, latestPath, type RunPaths } from "./run_folder.ts";
import { torchScheduler } from "./torch_scheduler.ts";
import { learningRate, type Schedule } from "./schedule.ts";
import { join } from "../../deps/path.ts";
import { remove } from "../base/atomic.ts";
import { ELSEWHERE } from "../checkpoint/sharded_writer.ts";
import { shareOut } from "../checkpoint/sharded_reader.ts";
import type { Control } from "../ranks/control/control.ts";
import type { Team } from "../ranks/team.ts";

// A snapshot is made between two steps, and a thread writes it while training goes on.

/** It has what a checkpoint says of its run, but for what only the moment of the save tells. */
interface Context extends Omit<Facts, "version" | "run" | "seed" | "learningRate" | "scheduler" | "config"> {
  readonly config: Config;
  readonly paths: RunPaths;
  readonly parts: Parts;
  readonly cursor: Cursor;
  readonly schedule: Schedule;
  readonly events: EventLog;
  readonly console: Console;
  /** Puts the optimizer's state where `parts` has it, on every rank. */
  readonly gather?: () => void;
  /** Null where this rank writes all. */
  readonly sharing?: Sharing | null;
}

export interface Saver {
  /** Called when the first step is over. */
  ready(): void;
  /** The file is there when `settle` returns. */
  save(reason: string, better: boolean): Promise<void>;
  /** Called before the state changes: a save may still be copying it. */
  hold(): void;
  /** Throws if the newest state could not be saved. */
  settle(): Promise<void>;
  readonly stats: { saves: number; stallSeconds: number; longest: number };
  /** Waits for the save under way, ignores its failure, and gives the run's name back. */
  close(): Promise<void>;
}

/** A larger state is written while training waits. */
const MOST_OF_FREE = 0.5;
/** A failing disk gets a warning this often. */
const WARN_MS = 600_000;

export function openSaver(c: Context): Saver {
  const { cursor, events, console, sharing } = c;
  failBeyondFileLimit();
  const background = openBackground(c);
  const stats = { saves: 0, stallSeconds: 0, longest: 0 };
  let writing: Writing | null = null;
  let failed: Error | null = null; // set while the newest state is not saved
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
    stats,
    ready: () => background?.writer.ready(),
    async save(reason, better) {
      // Gathered state has no copy, so the last save has to be over.
      const busy = () => sharing?.busy(writing !== null) ?? writing !== null;
      if (reason === "interval" && !c.gather && busy()) {
        if (writing === null || writing.leftOut) return; // one line for each slow save
        writing.leftOut = true;
        const message =
          `Save at step ${cursor.step} left out: the one of step ${writing.step} is still being written`;
        console.line(message);
        return events.emit({ kind: "warning", step: cursor.step, message });
      }
      const began = performance.now();
      events.flush();
      await wait();
      if (reason !== "interval") sharing?.busy(false); // the last save's parts are never mixed with these
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
        stats.saves++;
        if (background === null) now.stall = held();
        stats.stallSeconds += now.stall;
        stats.longest = Math.max(stats.longest, (performance.now() - began) / 1000);
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
      background?.writer.close();
      if ((sharing?.rank ?? 0) === 0) release(c.paths);
    },
  };
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
const writeHere = async (job: SaveJob): Promise<Written> => writeCheckpoint(job);

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

/** Running statistics change in the forward pass. */
function changedByUpdates({ names, stateDict, optimizer, ema }: Parts): Set<Tensor> {
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
  better: boolean,
  snapshot: Snapshot | null,
): SaveJob {
  const { config, paths, parts, cursor, schedule, sharing } = context;
  const { save_every_epoch, keep_last } = config.output;
  const ofEpoch = save_every_epoch && reason === "epoch" && cursor.stepInEpoch === 0
    ? epochFiles(paths, cursor.epoch, keep_last)
    : null;
  const own = sharing?.open(snapshot?.data ?? toData);
  const tree = toTree(parts, cursor, {
    ...context,
    version: VERSION,
    run: paths.run,
    seed: config.training.seed,
    learningRate: learningRate(schedule, cursor.step),
    scheduler: torchScheduler(schedule, {
      step: cursor.step,
      epoch: cursor.epoch,
      factors: parts.optimizer.groups?.factors ?? [1],
      stepSize: config.training.scheduler.step_size,
    }),
    config: valuesWithoutSecrets(config),
  }, own?.data ?? snapshot?.data);
  const place = (storage: Storage) => snapshot?.placeOf(storage) ?? storage.read(0, storage.byteLength);
  const path = latestPath(paths);
  const common = {
    copies: snapshot?.takeCopies() ?? [],
    copied: newFlag(),
    path,
    links: [...(better ? [bestPath(paths)] : []), ...(ofEpoch ? [epochPath(paths, cursor.epoch)] : [])],
    ofEpoch,
  };
  if (sharing && own) {
    return { ...common, ...own.partOf(tree, path, place), ...(sharing.rank > 0 ? ALONE : {}) };
  }
  return { ...common, ...contentOf(tree, { path, parameters: parts.names, place }) };
}

/** Only the first rank links and removes files. */
const ALONE = { links: [], ofEpoch: null };

// With --checkpoint-format sharded ranks agree on saves between two steps, so that their threads need only
// the folder.

export interface Sharing {
  readonly rank: number;
  /** This rank writes these tensors. */
  readonly owned: ReadonlySet<Tensor>;
  /** True where any rank is writing. Every rank calls it at the same saves. */
  busy(here: boolean): boolean;
  /** The parts of ranks that are gone are not waited for. */
  patiently(writing: Promise<void>): Promise<void>;
  /** From now on rank 0 waits only briefly for the others' parts. */
  end(): void;
  /** `data` is used for this rank's tensors alone. */
  open(data: (t: Tensor) => TensorData): Tree;
}

interface Tree {
  data(t: Tensor): TensorData;
  /** `place` puts the storages into the job. */
  partOf(
    tree: Value,
    path: string,
    place: (storage: Storage) => StoragePlace,
  ): Pick<SaveJob, "part" | "content" | "storages" | "finite">;
}

const LOOK_MS = 250;

/** Rank 0 waits `patience` seconds for the others' parts. */
export function openSharing(
  parts: Parts,
  team: Team | null,
  control: Control | null,
  patience: number,
): Sharing {
  const { rank, world } = team ?? { rank: 0, world: 1 };
  const mine = crypto.randomUUID().slice(0, 8);
  const session = team?.gather(mine, "name of the saves")[0] ?? mine; // no file of another process is taken for one of ours
  const owners = ownersOf(parts, world);
  const ending = new SharedArrayBuffer(4);
  const end = () => Atomics.store(new Int32Array(ending), 0, 1);
  let saves = 0;
  return {
    rank,
    owned: new Set(owners.keys().filter((t) => owners.get(t) === rank)),
    busy(here) {
      if (team === null) return here;
      control?.phase("waiting for ranks"); // a rank that saves has more time to end when another has failed
      const [any] = team.reduce([here ? 1 : 0], "max", "saves under way");
      control?.phase("save");
      return any === 1;
    },
    end,
    async patiently(writing) {
      const timer = setInterval(() => control?.failure() && end(), LOOK_MS);
      await writing.finally(() => clearInterval(timer));
    },
    open(data) {
      const ranks = new Map<TensorData, number>();
      return {
        data(t) {
          const owner = owners.get(t)!;
          const made = owner === rank ? data(t) : new TensorData(t.dtype, [...t.shape], ELSEWHERE);
          ranks.set(made, owner);
          return made;
        },
        partOf: (tree, path, place) => ({
          part: { rank, world, generation: `${session}-${++saves}`, patience, ending },
          // Only rank 0 writes the optimizer's step counts.
          ...partOf(tree, {
            path,
            parameters: parts.names,
            place,
            rank,
            rankOf: (data) => ranks.get(data) ?? 0,
          }),
        }),
      };
    },
  };
}

/** Buffers are rank 0's. */
function ownersOf(parts: Parts, world: number): Map<Tensor, number> {
  const names = new Set(parts.names);
  const buffers = new Set(parts.stateDict.filter(([name]) => !names.has(name)).map(([, t]) => t));
  const all = [...new Set(tensorsOf(parts))];
  const common = all.filter((t) => !buffers.has(t));
  const shares = shareOut(common.map(({ byteLength }) => byteLength), world);
  return new Map([
    ...common.map((t, i) => [t, shares[i]] as const),
    ...buffers.values().map((t) => [t, 0] as const),
  ]);
}

/** Every rank calls it. */
export function refuseSeparate(folder: string, team: Team): void {
  const name = `.probe-${crypto.randomUUID()}`;
  const probe = join(folder, team.gather(name, "folder of checkpoints")[0]);
  if (team.rank === 0) Deno.writeTextFileSync(probe, "");
  team.gather(null, "folder of checkpoints");
  const seen = team.gather(isThere(probe) ? null : Deno.hostname(), "folder of checkpoints");
  if (team.rank === 0) remove(probe);
  const blind = seen.findIndex((host) => host !== null);
  if (blind < 0) return;
  throw new UserError(
    "usage",
    `With --checkpoint-format sharded all ranks write into one folder, and Rank ${blind} on ${
      seen[blind]
    } does not ` +
      `see what rank 0 writes to ${folder}. Name a folder on a file system that all nodes share, from its root: ` +
      "--save-dir /DIR (or --model-dir /DIR), or leave --checkpoint-format out.",
  );
}

function isThere(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}
