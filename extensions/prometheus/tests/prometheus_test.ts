// The file of `--track prometheus`, as the documentation of Prometheus's text format reads it.
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import type { TrackedRun } from "../../../core/outputs/tracked.ts";
import { eventsOf, inTemp, succeed, TINY } from "../../../tests/integration/program.ts";
import { openAll, writeStrange } from "../../../tests/core/outputs/tracked/made_runs.ts";
import * as module from "../sink.ts";
import { readPrometheus } from "./text_format.ts";

const seenIn = (folder: string) => readPrometheus(Deno.readTextFileSync(join(folder, "metrics.prom")));

Deno.test("a run's newest numbers are in its file, and in the folder of --prometheus-dir under the run's name", () =>
  inTemp(async (cwd) => {
    const flags = [...TINY, "--model=cosmo-cnn", "--data-type=synthetic", "--log-interval=1", "--no-wandb"];
    const { stdout } = await succeed([...flags, "--track=prometheus", "--epochs=2", "--run-name=r"], { cwd });
    assertMatch(stdout, /Prometheus file +logs\/r\/metrics\.prom/);
    const last = eventsOf(cwd, "r").findLast(({ kind }) => kind === "step")!;
    const gauges = seenIn(join(cwd, "logs/r"));
    const only = (name: string) => gauges[`hpctrain_${name}`].map(({ labels, value }) => [labels, value]);
    assertEquals(only("train_loss"), [[{ run: "r" }, last.loss]]);
    assertEquals(only("running"), [[{ run: "r" }, 0]]);
    assertEquals(only("exit_code"), [[{ run: "r" }, 0]]);
    assertEquals(gauges.hpctrain_val_r2.map(({ labels }) => labels.of), [undefined, "amplitude", "tilt"]);

    const more = ["--run-name=r", "--resume=auto", "--epochs=3", "--prometheus-dir=collected", "--no-wandb"];
    Deno.mkdirSync(join(cwd, "collected"));
    await succeed(more, { cwd });
    assertEquals([...Deno.readDirSync(join(cwd, "collected"))].map(({ name }) => name), ["hpctrain_r.prom"]);
  }));

Deno.test("a failed and strange run is in Prometheus's file: NaN, infinities, names of all kinds", () =>
  inTemp((logs) => {
    const pathOf = (folder: string) => join(folder, "metrics.prom");
    writeStrange(logs, (run: TrackedRun) => openAll({ prometheus: { module, pathOf } }, run));
    assertEquals([...Deno.readDirSync(join(logs, "never"))], [], "a start that fails leaves nothing");
    const gauges = seenIn(join(logs, "failed"));
    assertEquals(gauges.hpctrain_train_loss, [{ labels: { run: "failed" }, value: NaN }]);
    assertEquals(gauges.hpctrain_val_r2.map(({ labels, value }) => [labels.of, value]), [
      ['sea, "ice"\n', 0.5],
      ["salz%", -Infinity],
    ]);
    assertEquals(gauges.hpctrain_system_rss_bytes[0].labels, { run: "failed", rank: "1" });
  }));
