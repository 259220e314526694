// The files of --track, as TensorBoard, MLflow, pandas and Prometheus read them.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { join } from "@std/path";
import { openTrack } from "../../../../core/run/writer/track.ts";
import type { Event } from "../../../../core/run/events.ts";
import type { Sink, SinkModule } from "../../../../core/run/output.ts";
import { resolveSettings } from "../../../../core/settings/resolve.ts";
import { trackedOutputs } from "../../../../core/outputs/tracked.ts";
import type { TrackedRun } from "../../../../core/outputs/tracked_run.ts";
import { crc32c } from "../../../../core/outputs/tensorboard/record.ts";
import { eventsOf, inTemp, onDisk, ROOT_USER, succeed, TINY } from "../../../integration/program.ts";
import { epochEnd, exit, step, steps } from "../wandb/runs.ts";
import { readPrometheus } from "./prometheus.ts";
import { seenBelow } from "./viewers.ts";

const ALL = "tensorboard,csv,mlflow,prometheus";

const modules = new Map<string, SinkModule>();
for (const name of ALL.split(",")) {
  modules.set(name, await import(`../../../../core/outputs/${name}/sink.ts`));
}

/** A run below logs/, with ten steps an epoch. */
const runIn = (logs: string, run: string): TrackedRun => ({
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
const goingOn = (logs: string, run: string, step: number): TrackedRun => ({
  ...runIn(logs, run),
  resumed: { step, epoch: step / 10 - 1 },
  pace: { step, stepInEpoch: 10, stepsPerEpoch: 10, maxSteps: 0 },
});

const PATHS: Record<string, (logs: string) => string> = {
  tensorboard: (folder) => folder,
  csv: (folder) => join(folder, "metrics.csv"),
  mlflow: (folder) => join(folder, "../mlruns"),
  prometheus: (folder) => join(folder, "metrics.prom"),
};

/** All sinks as one. */
function openAll(run: TrackedRun): Required<Sink> {
  Deno.mkdirSync(run.folder, { recursive: true });
  const sinks = [...modules].map(([name, { openSink }]) =>
    openSink({ ...run, path: PATHS[name](run.folder) })
  );
  return {
    write: (event) => sinks.forEach((sink) => sink.write(event)),
    note: (note) => sinks.forEach((sink) => sink.note?.(note)),
    close: (code) => sinks.forEach((sink) => sink.close(code)),
  };
}

/** A PNG of one point. */
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const picture = { png: PNG, width: 1, height: 1, caption: "" };

const tfEventsIn = (folder: string) =>
  [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) => name.includes("tfevents")).sort();

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
const stepsIn = (values: readonly (readonly [number, ...unknown[]])[]) => values.map(([step]) => step);

Deno.test("a run and its resume are in TensorBoard, MLflow, CSV and Prometheus as in events.jsonl", () =>
  inTemp(async (cwd) => {
    const flags = [...TINY, "--model=cosmo-cnn", "--data-type=synthetic", "--log-interval=1", "--no-wandb"];
    const more = [`--track=${ALL}`, "--histograms=4", "--images=2", "--wandb-project=my maps"];
    const { stdout } = await succeed([...flags, ...more, "--epochs=2", "--run-name=r"], { cwd });
    for (const line of [/CSV table +logs\/r\/metrics\.csv/, /MLflow run +logs\/mlruns/]) {
      assertMatch(stdout, line);
    }
    await succeed(["--run-name=r", "--resume=auto", "--epochs=4", ...more.slice(1), "--no-wandb"], { cwd });
    const logs = join(cwd, "logs"), { scalars, histograms, images, hparams, mlflow, csv } = seenBelow(logs);
    const events = eventsOf(cwd, "r");
    const told = (kind: string, field: string) =>
      events.flatMap((event) => event.kind === kind ? [[event.step, event[field]] as [number, number]] : []);
    const single = (values: [number, number][]) =>
      values.map(([step, x]): [number, number] => [step, Math.fround(x)]);

    assertEquals(scalars.r["train/loss"], single(told("step", "loss")));
    assertEquals(scalars.r["val/loss"], single(told("eval", "val_loss")));
    assertEquals(stepsIn(scalars.r["val/r2/amplitude"]), [4, 8, 12, 16]);
    assertEquals(scalars.r["train/epoch_loss"], single(told("epoch", "loss")));
    assert(Object.keys(scalars.r).some((tag) => tag.startsWith("time/compute_ms")));
    assertEquals(stepsIn(histograms.r["weights/head.0.weight"]), [4, 8, 12, 16]);
    for (const [, num, counts] of histograms.r["weights/head.0.weight"]) assertEquals(num, counts);
    assertEquals(images.r["samples/0"].length, 2, "one set a minute, so one an attempt");
    for (const [, width, height] of images.r["samples/0"]) assert(width >= 32 && height >= 32);

    assertEquals(hparams.map(({ name, status }) => [name, status]), [["r", 1]]);
    assertEquals(hparams[0].hparams["training.epochs"], 4, "those of the last attempt");
    assertEquals(hparams[0].hparams["model"], "cosmo-cnn");
    assertEquals(hparams[0].hparams["data.train_samples"], 64);
    assertEquals(hparams[0].hparams["training.lr_finder"], undefined, "what nobody chose is left out");
    assertEquals(hparams[0].metrics["val/loss"], Math.fround(told("eval", "val_loss").at(-1)![1]));

    assertEquals(mlflow.map(({ experiment, name, status }) => [experiment, name, status]), [
      ["my maps", "r", "FINISHED"],
    ]);
    assertEquals(mlflow[0].metrics["train/loss"], told("step", "loss"));
    assertEquals(mlflow[0].metrics["val/loss"], told("eval", "val_loss"));
    assertEquals(stepsIn(mlflow[0].metrics["val/r2.amplitude"]), [4, 8, 12, 16]);
    assertEquals([mlflow[0].params["training.epochs"], mlflow[0].params.model], ["4", "cosmo-cnn"]);

    const short = (values: [number, number][]) => values.map(([, x]) => Number(x.toPrecision(9)));
    assertEquals(csv.r.step, range(1, 16));
    assertEquals(csv.r["train/loss"], short(told("step", "loss")));
    assertEquals(csv.r["val/loss"].flatMap((x) => x ?? []), told("eval", "val_loss").map(([, x]) => x));
    assertEquals(csv.r["val/loss"].flatMap((x, i) => x === null ? [] : [i + 1]), [4, 8, 12, 16]);

    const gauges = readPrometheus(Deno.readTextFileSync(join(logs, "r/metrics.prom")));
    const only = (name: string) => gauges[`hpctrain_${name}`].map(({ labels, value }) => [labels, value]);
    assertEquals(only("train_loss"), [[{ run: "r" }, told("step", "loss").at(-1)![1]]]);
    assertEquals(only("running"), [[{ run: "r" }, 0]]);
    assertEquals(only("exit_code"), [[{ run: "r" }, 0]]);
    assertEquals(gauges.hpctrain_val_r2.map(({ labels }) => labels.of), [undefined, "amplitude", "tilt"]);
  }));

Deno.test("killed, failed and strange runs: each step once, NaN, names of all kinds", () =>
  inTemp((logs) => {
    const events = [...steps(1, 30)], folder = join(logs, "killed"), csv = join(folder, "metrics.csv");
    const killed = openAll(runIn(logs, "killed"));
    for (const event of events.slice(0, 28)) killed.write(event);
    for (const n of [10, 20, 24]) {
      killed.note({ kind: "histograms", t: 0, step: n, of: { w: { values: [1, 2], bins: [0, 1, 2] } } });
      killed.note({ kind: "pictures", t: 0, step: n, name: "p", pictures: [picture] });
    }
    // A kill may cut the last record of a file.
    for (const path of [csv, join(folder, tfEventsIn(folder)[0])]) {
      Deno.truncateSync(path, Deno.statSync(path).size - 3);
    }
    const header = Deno.readTextFileSync(csv).split("\n")[0];
    const again = openAll(goingOn(logs, "killed", 20));
    for (const event of [...epochEnd(2, 0.25), ...steps(21, 30)]) again.write(event);
    again.close(75);
    assertEquals(Deno.readTextFileSync(csv).split("\n")[0], header, "columns stay where they are");
    assertEquals(tfEventsIn(folder).length, 2, "a file an attempt");

    const failed = openAll(runIn(logs, "failed"));
    failed.write(step(1, { loss: Infinity }));
    failed.write(step(10, { loss: NaN }));
    const metrics = { 'r2/sea, "ice"\n': 0.5, "r2/salz%": -Infinity };
    failed.write({ t: 3, kind: "eval", step: 10, epoch: 1, val_loss: NaN, metrics, samples: 1, seconds: 1 });
    failed.write({ t: 4, kind: "system", step: 10, rank: 1, rss_bytes: 2 ** 30 });
    failed.write(exit(6, 10));
    failed.close(6);

    const never = openAll(runIn(logs, "never"));
    never.write({ t: 1, kind: "config", config: {} });
    never.write(exit(2, 0));
    never.close(2);
    assertEquals([...Deno.readDirSync(join(logs, "never"))], [], "a start that fails leaves nothing");

    const seen = seenBelow(logs), runs = Object.fromEntries(seen.mlflow.map((run) => [run.name, run]));
    for (const values of [seen.scalars.killed, runs.killed.metrics]) {
      assertEquals(stepsIn(values["train/loss"]), range(1, 30));
      assertEquals(values["val/loss"].map(([step, x]) => [step, Math.fround(Number(x))]), [
        [10, 1],
        [20, 0.25],
        [30, Math.fround(1 / 3)],
      ]);
    }
    assertEquals(seen.csv.killed.step, range(1, 30));
    assertEquals(seen.csv.killed["val/loss"].flatMap((x) => x ?? []), [1, 0.25, 1 / 3]);
    assertEquals(stepsIn(seen.histograms.killed.w), [10, 20]);
    assertEquals(
      stepsIn(seen.images.killed["p/0"]),
      [10],
      "the evaluation of step 20 makes its pictures again",
    );

    assertEquals(seen.scalars.failed["train/loss"], [[1, "inf"], [10, "nan"]] as never);
    assertEquals(seen.scalars.failed["system/rank.1.proc.memory.rssMB"], [[10, 1024]]);
    assertEquals(runs.failed.metrics["train/loss"], [[1, "inf"], [10, "nan"]]);
    assertEquals(runs.failed.metrics["val/r2.salz_"], [[10, "-inf"]]);
    assertEquals(seen.csv.failed['val/r2/sea, "ice" '], [null, 0.5]);
    assertEquals(seen.csv.failed["val/r2/salz%"], [null, "-inf"] as never);
    assertEquals(Object.keys(runs).length, 2);
    assertEquals([runs.killed.status, runs.failed.status], ["KILLED", "FAILED"]);
    assertEquals(seen.hparams.map(({ name, status }) => [name, status]).sort(), [["failed", 2], [
      "killed",
      0,
    ]]);
    assertEquals(seen.hparams[0].hparams, runIn(logs, "").hyperparameters);

    const gauges = readPrometheus(Deno.readTextFileSync(join(logs, "failed/metrics.prom")));
    assertEquals(gauges.hpctrain_train_loss, [{ labels: { run: "failed" }, value: NaN }]);
    assertEquals(gauges.hpctrain_val_r2.map(({ labels, value }) => [labels.of, value]), [
      ['sea, "ice"\n', 0.5],
      ["salz%", -Infinity],
    ]);
    assertEquals(gauges.hpctrain_system_rss_bytes[0].labels, { run: "failed", rank: "1" });
    killed.close();
  }));

Deno.test({
  name: "a full disk costs records of the outputs, warns, and leaves files that can be read",
  ignore: !ROOT_USER,
  fn: () =>
    onDisk(1, async (disk) => {
      await inTemp(async (elsewhere) => {
        const run = runIn(disk, "full"), warnings: string[] = [];
        Deno.mkdirSync(run.folder);
        const outputs = Object.entries(PATHS).map(([name, pathOf]) => ({
          name,
          module: new URL(`../../../../core/outputs/${name}/sink.ts`, import.meta.url).href,
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
        for (const name of ["tensorboard", "csv"]) {
          assert(
            warnings.some((text) => text.includes(`of the ${name} could not be written`)),
            warnings.join("\n"),
          );
        }
        const [experiment] = [...Deno.readDirSync(join(disk, "mlruns"))];
        const [{ name: id }] = [...Deno.readDirSync(join(disk, "mlruns", experiment.name))].filter((f) =>
          f.isDirectory
        );
        const file = Deno.readTextFileSync(join(disk, "mlruns", experiment.name, id, "metrics/train/loss"));
        const ofMlflow = file.trimEnd().split("\n").map((line) =>
          Number(/^\d+ [\d.e-]+ (\d+)$/.exec(line)?.[1])
        );
        Deno.removeSync(join(disk, "mlruns"), { recursive: true }); // importing mlflow takes seconds
        const { scalars, csv } = seenBelow(disk);
        for (const found of [stepsIn(scalars.full["train/loss"]), ofMlflow]) {
          assertEquals([found.slice(0, 20), found.slice(-10)], [range(1, 20), range(401, 410)]);
        }
        assertEquals(csv.full.step.slice(-10), range(401, 410));
      });
    }),
});

Deno.test("an unknown name of --track is refused with those there are", () => {
  assertThrows(
    () => resolveSettings({ argv: ["--track", "csv,tensorbord"], env: {} }),
    Error,
    'must be one or more of tensorboard, csv, mlflow, prometheus, with commas between them, but got ["csv","tensorbord"]. ' +
      'Did you mean "tensorboard"?',
  );
  assertEquals(resolveSettings({ argv: [], env: { HPCTRAIN_TRACK: "mlflow" } }).config.output.track, [
    "mlflow",
  ]);
  assertEquals(trackedOutputs.length, modules.size);
});

Deno.test("checksums are CRC-32C", () =>
  assertEquals(crc32c(new TextEncoder().encode("123456789")), 0xe3069283));
