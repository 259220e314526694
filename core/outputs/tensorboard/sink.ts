// Writes TensorBoard's event files, in the writing thread: one for each start of the run, in the run's folder.
import { Buffer } from "node:buffer";
import { join } from "../../../deps/path.ts";
import { EXIT } from "../../base/errors.ts";
import { writeAll, writeAtomically } from "../../base/atomic.ts";
import type { Event, Note } from "../../run/events.ts";
import type { Sink } from "../../run/output.ts";
import { type AppendedFile, openAppended } from "../append.ts";
import { waitsForEvaluation } from "../rows.ts";
import { eachScalar, eachSystemScalar, hasScalars, type PutScalar, slowClock } from "../scalars.ts";
import { onceBegun, type TrackedRun } from "../tracked_run.ts";
import {
  HPARAMS_TAG,
  openEncoder,
  type ReadRecord,
  readRecords,
  SESSION,
  type SummaryWriter,
} from "./record.ts";

export const openSink = (run: unknown): Sink => onceBegun(() => openSummaryFile(run as TrackedRun));

export function openSummaryFile(run: TrackedRun): Required<Sink> {
  const { folder, resumed } = run;
  if (resumed !== null) { for (const path of eventFilesIn(folder)) forget(path, run); }
  const encoder = openEncoder(), isSlow = slowClock();
  const now = Date.now() / 1000;
  let file = begin(now);
  let last = resumed?.step ?? 0;

  function begin(t: number): AppendedFile {
    const file = openAppended(join(folder, newName(folder, t)), 0);
    file.append(encoder.version(t));
    if (resumed !== null) file.append(encoder.restart(t, resumed.step + 1));
    file.append(encoder.summary(t, 0, (to) => to.start(run.hyperparameters, run.began)));
    return file;
  }
  const add = (t: number, step: number, body: (to: SummaryWriter) => void) =>
    file.append(encoder.summary(t, step, body));
  const scalars = (t: number, step: number, each: (put: PutScalar) => void) => {
    last = Math.max(last, step);
    add(t, step, (to) => each((name, value) => to.scalar(name, value)));
  };

  return {
    write(event: Event) {
      if (hasScalars(event)) {
        if (event.kind === "times" && event.steps === 0) return;
        const slow = event.kind !== "step" || isSlow(event.t);
        scalars(event.t, event.step, (put) => eachScalar(event, put, slow));
        if (event.kind === "epoch" && file.gone) file = begin(event.t); // somebody has removed it
      } else if (event.kind === "system") {
        scalars(
          event.t,
          event.step,
          (put) => eachSystemScalar(event, (name, value) => put(`system/${name}`, value)),
        );
      }
    },
    note(note: Note) {
      if (note.kind === "histograms") {
        add(note.t, note.step, (to) => {
          for (const [name, of] of Object.entries(note.of)) to.histogram(name, of);
        });
      } else if (note.kind === "pictures") {
        add(
          note.t,
          note.step,
          (to) =>
            note.pictures.forEach(({ png, width, height }, i) =>
              to.picture(`${note.name}/${i}`, { png: Buffer.from(png, "base64"), width, height })
            ),
        );
      }
    },
    close(exitCode) {
      try {
        if (exitCode === undefined || exitCode === EXIT.stopped) return; // it goes on
        const status = exitCode === EXIT.done ? SESSION.success : SESSION.failure, t = Date.now() / 1000;
        add(t, last, (to) => to.end(status, t));
      } finally {
        file.close();
      }
    },
  };
}

const NAME = /^events\.out\.tfevents\.(\d+)\./;

const eventFilesIn = (folder: string): string[] =>
  [...Deno.readDirSync(folder)].flatMap(({ name }) => NAME.test(name) ? [join(folder, name)] : []);

/** TensorBoard reads files in the order of their names, so a clock that was set back must not matter. */
function newName(folder: string, t: number): string {
  const before = [...Deno.readDirSync(folder)].map(({ name }) => Number(NAME.exec(name)?.[1] ?? 0));
  const seconds = Math.max(Math.floor(t), ...before.map((s) => s + 1));
  return `events.out.tfevents.${String(seconds).padStart(10, "0")}.${Deno.hostname()}.${Deno.pid}.0`;
}

/** Takes the steps that are done again from an earlier attempt's file. */
function forget(path: string, { resumed, pace }: TrackedRun): void {
  const { step } = resumed!, again = waitsForEvaluation(step, pace);
  const isRepeated = (record: ReadRecord): boolean =>
    record.step > step || record.tags.some((tag) => tag.startsWith(HPARAMS_TAG)) ||
    (again && record.step === step && (record.pictures || record.tags.some(isOfEvaluation)));
  if (!readRecords(path).some(isRepeated)) return;
  writeAtomically(path, (out) => {
    for (const record of readRecords(path)) if (!isRepeated(record)) writeAll(out, record.bytes);
  }, { sync: false });
}

const isOfEvaluation = (tag: string): boolean => tag.startsWith("val/") || tag === "train/epoch_loss";
