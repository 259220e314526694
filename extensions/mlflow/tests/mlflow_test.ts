// The runs of `--track mlflow`, as MLflow reads them.
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import type { TrackedRun } from "../../../core/outputs/tracked.ts";
import { eventsOf, inTemp, ROOT_USER, succeed, TINY } from "../../../tests/integration/program.ts";
import {
  KILLED_EVALUATIONS,
  onFullDisk,
  openAll,
  range,
  stepsIn,
  writeKilled,
  writeStrange,
} from "../../../tests/core/outputs/tracked/made_runs.ts";
import { viewed } from "../../../tests/core/outputs/tracked/viewers.ts";
import * as module from "../sink.ts";

interface Run {
  readonly experiment: string;
  readonly name: string;
  readonly status: string;
  readonly params: Readonly<Record<string, string>>;
  readonly tags: Readonly<Record<string, string>>;
  readonly metrics: Readonly<Record<string, readonly [number, number | string][]>>;
}

const seenBelow = (logs: string): Run[] =>
  viewed(new URL("./mlflow_runs.py", import.meta.url), logs, { MLFLOW_ALLOW_FILE_STORE: "true" });

const pathOf = (folder: string) => join(folder, "../mlruns");

Deno.test("a run and its resume are in MLflow as in events.jsonl", () =>
  inTemp(async (cwd) => {
    const flags = [...TINY, "--model=cosmo-cnn", "--data-type=synthetic", "--log-interval=1", "--no-wandb"];
    const { stdout } = await succeed(
      [...flags, "--track=mlflow", "--wandb-project=my maps", "--epochs=2", "--run-name=r"],
      { cwd },
    );
    assertMatch(stdout, /MLflow run +logs\/mlruns/);
    await succeed(
      ["--run-name=r", "--resume=auto", "--epochs=4", "--wandb-project=my maps", "--no-wandb"],
      { cwd },
    );
    const told = (kind: string, field: string) =>
      eventsOf(cwd, "r").flatMap((event) =>
        event.kind === kind ? [[event.step, event[field]] as [number, number]] : []
      );
    const runs = seenBelow(join(cwd, "logs"));
    assertEquals(runs.map(({ experiment, name, status }) => [experiment, name, status]), [
      ["my maps", "r", "FINISHED"],
    ]);
    assertEquals(runs[0].metrics["train/loss"], told("step", "loss"));
    assertEquals(runs[0].metrics["val/loss"], told("eval", "val_loss"));
    assertEquals(stepsIn(runs[0].metrics["val/r2.amplitude"]), [4, 8, 12, 16]);
    assertEquals([runs[0].params["training.epochs"], runs[0].params.model], ["4", "cosmo-cnn"]);
  }));

Deno.test("killed, failed and strange runs are in MLflow: each step once, NaN, names of all kinds", () =>
  inTemp((logs) => {
    const open = (run: TrackedRun) => openAll({ mlflow: { module, pathOf } }, run);
    const killed = writeKilled(logs, open, () => {});
    writeStrange(logs, open);
    assertEquals([...Deno.readDirSync(join(logs, "never"))], [], "a start that fails leaves nothing");
    const runs = Object.fromEntries(seenBelow(logs).map((run) => [run.name, run]));
    assertEquals(stepsIn(runs.killed.metrics["train/loss"]), range(1, 30));
    assertEquals(runs.killed.metrics["val/loss"], KILLED_EVALUATIONS.map(([step, x]) => [step, x]));
    assertEquals(runs.failed.metrics["train/loss"], [[1, "inf"], [10, "nan"]]);
    assertEquals(runs.failed.metrics["val/r2.salz_"], [[10, "-inf"]]);
    assertEquals(Object.keys(runs).length, 2);
    assertEquals([runs.killed.status, runs.failed.status], ["KILLED", "FAILED"]);
    killed.close();
  }));

Deno.test({
  name: "a full disk costs records of the MLflow run, and leaves files that can be read",
  ignore: !ROOT_USER,
  fn: () =>
    onFullDisk({ mlflow: { url: import.meta.resolve("../sink.ts"), pathOf } }, ({ logs }) => {
      const store = join(logs, "mlruns"), [experiment] = [...Deno.readDirSync(store)];
      const [{ name: id }] = [...Deno.readDirSync(join(store, experiment.name))].filter((f) => f.isDirectory);
      const file = Deno.readTextFileSync(join(store, experiment.name, id, "metrics/train/loss"));
      const found = file.trimEnd().split("\n").map((line) => Number(/^\d+ [\d.e-]+ (\d+)$/.exec(line)?.[1]));
      assertEquals([found.slice(0, 20), found.slice(-10)], [range(1, 20), range(401, 410)]);
    }),
});
