// Writes a run of MLflow's file store, in the writing thread: a file for each metric, parameter and tag.
import { createHash } from "node:crypto";
import { join, resolve, toFileUrl } from "../../deps/path.ts";
import { EXIT } from "../../core/base/errors.ts";
import { writeAll, writeAtomically } from "../../core/base/atomic.ts";
import { pathExists } from "../../core/base/files.ts";
import { readEventLines } from "../../core/run/event_log.ts";
import type { Event } from "../../core/run/events.ts";
import type { Sink } from "../../core/run/output.ts";
import { type AppendedFile, openAppended } from "../../core/outputs/append.ts";
import { waitsForEvaluation } from "../../core/outputs/rows.ts";
import { eachScalar, hasScalars, slowClock } from "../../core/outputs/scalars.ts";
import { onceBegun, type TrackedRun } from "../../core/outputs/tracked.ts";

/** As mlflow.entities.RunStatus has them. */
const STATUS = { running: 1, finished: 3, failed: 4, killed: 5 };

export const openSink = (run: unknown): Sink => onceBegun(() => openMlflowRun(run as TrackedRun));

function openMlflowRun(run: TrackedRun): Sink {
  const store = resolve(run.path), experiment = makeExperiment(store, run.project);
  const known = run.resumed === null ? null : knownId(run.folder);
  const id = known ?? crypto.randomUUID().replaceAll("-", "");
  const folder = join(experiment.folder, id), metrics = openMetrics(join(folder, "metrics"));
  const meta = (status: number, end: number | null) => writeMeta(folder, run, experiment.id, id, status, end);
  if (known !== null) metrics.forget(run);
  Deno.mkdirSync(join(folder, "artifacts"), { recursive: true });
  Deno.writeTextFileSync(join(run.folder, NOTE), JSON.stringify({ id }) + "\n");
  writeEach(join(folder, "params"), run.hyperparameters);
  writeEach(join(folder, "tags"), {
    "mlflow.runName": run.run,
    "mlflow.source.name": "hpctrain",
    "mlflow.source.type": "LOCAL",
    "mlflow.user": user(),
    ...run.notes === "" ? {} : { "mlflow.note.content": run.notes },
  });
  meta(STATUS.running, null);
  const isSlow = slowClock();
  return {
    write(event: Event) {
      if (!hasScalars(event)) return;
      const slow = event.kind !== "step" || isSlow(event.t), t = Math.round(1000 * event.t);
      eachScalar(event, (name, value) => metrics.add(name, `${t} ${value} ${event.step}\n`), slow);
    },
    close(exitCode) {
      metrics.close();
      if (exitCode === undefined) return; // nobody knows how it ended
      meta(
        exitCode === EXIT.done ? STATUS.finished : exitCode === EXIT.stopped ? STATUS.killed : STATUS.failed,
        Date.now(),
      );
    },
  };
}

/** A run that goes on finds its id here. */
const NOTE = "mlflow.json";

function knownId(folder: string): string | null {
  try {
    const { id } = JSON.parse(Deno.readTextFileSync(join(folder, NOTE)));
    return /^[0-9a-f]{32}$/.test(id) ? id : null;
  } catch {
    return null; // it was not written to MLflow before
  }
}

/** The id follows from the name, so that runs that begin at the same time make one experiment. */
function makeExperiment(store: string, name: string): { id: string; folder: string } {
  const sum = createHash("sha256").update(name).digest();
  const id = String(sum.readBigUInt64BE() % 900_000_000_000_000_000n + 100_000_000_000_000_000n);
  const folder = join(store, id), meta = join(folder, "meta.yaml"), now = Date.now();
  if (!pathExists(meta)) {
    writeText(
      meta,
      yaml({
        artifact_location: toFileUrl(folder).href,
        creation_time: now,
        experiment_id: id,
        last_update_time: now,
        lifecycle_stage: "active",
        name,
      }),
    );
  }
  return { id, folder };
}

function writeMeta(
  folder: string,
  { run, began }: TrackedRun,
  experiment: string,
  id: string,
  status: number,
  end: number | null,
): void {
  writeText(
    join(folder, "meta.yaml"),
    yaml({
      artifact_uri: toFileUrl(join(folder, "artifacts")).href,
      end_time: end,
      entry_point_name: "",
      experiment_id: experiment,
      lifecycle_stage: "active",
      run_id: id,
      run_name: run,
      run_uuid: id,
      source_name: "",
      source_type: 4,
      source_version: "",
      start_time: startOf(join(folder, "meta.yaml")) ?? Math.round(1000 * began),
      status,
      tags: [],
      user_id: user(),
    }),
  );
}

/** The first attempt's. */
function startOf(meta: string): number | null {
  if (!pathExists(meta)) return null;
  const found = /^start_time: (\d+)$/m.exec(Deno.readTextFileSync(meta));
  return found && Number(found[1]);
}

/** JSON's texts, numbers and null are YAML's. */
const yaml = (values: Readonly<Record<string, unknown>>): string =>
  Object.entries(values).map(([name, value]) => `${name}: ${JSON.stringify(value)}\n`).join("");

const user = (): string => Deno.env.get("USER") ?? Deno.env.get("LOGNAME") ?? "";

const writeText = (path: string, text: string): void =>
  writeAtomically(path, (out) => writeAll(out, new TextEncoder().encode(text)), { sync: false });

/** MLflow's databases take no longer text. */
const LONGEST = 6000;

function writeEach(folder: string, values: Readonly<Record<string, unknown>>): void {
  Deno.mkdirSync(folder, { recursive: true });
  for (const [name, value] of Object.entries(values)) {
    Deno.writeTextFileSync(join(folder, fileName(name)), String(value).slice(0, LONGEST));
  }
}

/** More of them are not kept open. */
const OPEN = 64;

interface Metrics {
  add(name: string, line: string): void;
  /** Takes the steps that are done again from an earlier attempt's files. */
  forget(run: TrackedRun): void;
  close(): void;
}

function openMetrics(folder: string): Metrics {
  const files = new Map<string, AppendedFile>(), encoder = new TextEncoder();
  const close = () => {
    for (const file of files.values()) file.close();
    files.clear();
  };
  return {
    add(name, line) {
      let file = files.get(name);
      if (file === undefined) {
        if (files.size >= OPEN) close();
        files.set(name, file = openAppended(join(folder, fileName(name))));
      }
      file.append(encoder.encode(line));
    },
    forget({ resumed, pace }) {
      const { step } = resumed!, again = waitsForEvaluation(step, pace);
      for (const path of filesBelow(folder)) {
        const isOfEvaluation = again &&
          (path.startsWith(join(folder, "val/")) || path.endsWith("train/epoch_loss"));
        const last = isOfEvaluation ? step - 1 : step;
        const kept = [...readEventLines(path)].filter((line) => stepOf(line) <= last);
        if (kept.length > 0) writeText(path, kept.map((line) => line + "\n").join(""));
        else Deno.removeSync(path); // MLflow takes an empty file for a damaged one
      }
    },
    close,
  };
}

const stepOf = (line: string): number => Number(line.split(" ")[2] ?? NaN);

function filesBelow(folder: string): string[] {
  if (!pathExists(folder)) return [];
  return [...Deno.readDirSync(folder)].flatMap(({ name, isDirectory }) =>
    isDirectory ? filesBelow(join(folder, name)) : [join(folder, name)]
  );
}

/** "val/r2" is a file, so "val/r2/ice" can't be in a folder of that name; MLflow takes few signs. */
const fileName = (name: string): string => {
  const [first, ...rest] = name.split("/");
  return [first, rest.join(".")].filter(Boolean).join("/").replaceAll(/[^\w\-. /]/g, "_");
};
