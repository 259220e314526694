// Made-up runs for the sinks of `--track`. Test helper.
import { join } from "paths";
import type { Sink, SinkModule } from "../../../../core/run/output.ts";
import type { Event } from "../../../../core/run/events.ts";
import { openTrack } from "../../../../core/run/writer/track.ts";
import type { TrackedRun } from "../../../../core/outputs/tracked.ts";
import { inTemp, onDisk } from "../../../integration/program.ts";
import { epochEnd, exit, step, steps } from "../wandb/runs.ts";

/** A run below logs/, with ten steps an epoch. */
export const runIn = (logs: string, run: string): TrackedRun => ({
  run,
  path: "",
  folder: join(logs, run),
  project: "maps",
  notes: "",
  resumed: null,
  pace: { step: 0, stepInEpoch: 0, stepsPerEpoch: 10, maxSteps: 0 },
  began: 1_700_000_000,
  hyperparameters: { model: "mlp", "training.batch_size": 16, "training.compile": true, "training.amp": "" },
});

/** The checkpoint is of the last step of an epoch, before its evaluation. */
export const goingOn = (logs: string, run: string, step: number): TrackedRun => ({
  ...runIn(logs, run),
  resumed: { step, epoch: step / 10 - 1 },
  pace: { step, stepInEpoch: 10, stepsPerEpoch: 10, maxSteps: 0 },
});

export const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
export const stepsIn = (values: readonly (readonly [number, ...unknown[]])[]) => values.map(([step]) => step);

/** Where each writes, from the folder of the run. */
export type Paths = Readonly<Record<string, { module: SinkModule; pathOf: (folder: string) => string }>>;

/** All sinks as one. */
export function openAll(sinks: Paths, run: TrackedRun): Required<Sink> {
  Deno.mkdirSync(run.folder, { recursive: true });
  const open = Object.values(sinks).map(({ module, pathOf }) =>
    module.openSink({ ...run, path: pathOf(run.folder) })
  );
  return {
    write: (event) => open.forEach((sink) => sink.write(event)),
    note: (note) => open.forEach((sink) => sink.note?.(note)),
    close: (code) => open.forEach((sink) => sink.close(code)),
  };
}

/** A run whose numbers are NaN and infinite and whose names are of all kinds, and a start that fails before its first step. */
export function writeStrange(logs: string, open: (run: TrackedRun) => Sink): void {
  const failed = open(runIn(logs, "failed"));
  failed.write(step(1, { loss: Infinity }));
  failed.write(step(10, { loss: NaN }));
  const metrics = { 'r2/sea, "ice"\n': 0.5, "r2/salz%": -Infinity };
  failed.write({ t: 3, kind: "eval", step: 10, epoch: 1, val_loss: NaN, metrics, samples: 1, seconds: 1 });
  failed.write({ t: 4, kind: "system", step: 10, rank: 1, rss_bytes: 2 ** 30 });
  failed.write(exit(6, 10));
  failed.close(6);

  const never = open(runIn(logs, "never"));
  never.write({ t: 1, kind: "config", config: {} });
  never.write(exit(2, 0));
  never.close(2);
}

/** A run that is killed after 28 of 30 steps, after which `kill` damages its files, and goes on from the 20th. */
export function writeKilled(
  logs: string,
  open: (run: TrackedRun) => Sink,
  kill: (killed: Sink) => void,
): Sink {
  const events = [...steps(1, 30)], killed = open(runIn(logs, "killed"));
  for (const event of events.slice(0, 28)) killed.write(event);
  kill(killed);
  const again = open(goingOn(logs, "killed", 20));
  for (const event of [...epochEnd(2, 0.25), ...steps(21, 30)]) again.write(event);
  again.close(75);
  return killed;
}

/** The values of `val/loss` in it. */
export const KILLED_EVALUATIONS: readonly (readonly [number, number])[] = [[10, 1], [20, 0.25], [30, 1 / 3]];

/** 410 steps, between the 20th and the 401st of which the disk is full; `judge` gets the run's folder. */
export const onFullDisk = (
  modules: Readonly<Record<string, { url: string; pathOf: (folder: string) => string }>>,
  judge: (run: { logs: string; folder: string; warnings: readonly string[] }) => void,
): Promise<void> =>
  onDisk(1, async (disk) => {
    await inTemp(async (elsewhere) => {
      const run = runIn(disk, "full"), warnings: string[] = [];
      Deno.mkdirSync(run.folder);
      const outputs = Object.entries(modules).map(([name, { url, pathOf }]) => ({
        name,
        module: url,
        setup: { ...run, path: pathOf(run.folder) },
        wants: { histograms: 0, pictures: 0, confusion: 0 },
        id: null,
        path: null,
        next: null,
      }));
      const log = openTrack(join(elsewhere, "events.jsonl"), {
        warn: (text) => warnings.push(text),
        outputs,
      });
      const emit = (event: Event) => log.emit(event);
      for (const event of steps(1, 20)) emit(event);
      log.flush();
      const filler = join(disk, "filler");
      try {
        Deno.writeFileSync(filler, new Uint8Array(2 ** 20));
      } catch { /* the disk is full */ }
      for (let n = 21; n <= 400; n++) emit(step(n));
      log.flush();
      Deno.removeSync(filler);
      for (const event of steps(401, 410)) emit(event);
      await log.close();
      judge({ logs: disk, folder: run.folder, warnings });
    });
  });
