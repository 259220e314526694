// The files of --track, as TensorBoard and pandas read them.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { join } from "paths";
import { trackedOutputs, type TrackedRun } from "../../../../core/outputs/tracked.ts";
import { resolveSettings } from "../../../../core/settings/resolve.ts";
import { TRACKS } from "../../../../core/settings/sections/run.ts";
import * as csvSink from "../../../../core/outputs/csv/sink.ts";
import * as tensorboardSink from "../../../../core/outputs/tensorboard/sink.ts";
import { crc32c } from "../../../../core/outputs/tensorboard/sink.ts";
import { eventsOf, inTemp, ROOT_USER, succeed, TINY } from "../../../integration/program.ts";
import {
  KILLED_EVALUATIONS,
  onFullDisk,
  openAll,
  range,
  runIn,
  stepsIn,
  writeKilled,
  writeStrange,
} from "./made_runs.ts";
import { seenBelow } from "./viewers.ts";
import { assertSentence } from "../../../sentences.ts";

const PATHS = {
  tensorboard: (folder: string) => folder,
  csv: (folder: string) => join(folder, "metrics.csv"),
};
const SINKS = {
  tensorboard: { module: tensorboardSink, pathOf: PATHS.tensorboard },
  csv: { module: csvSink, pathOf: PATHS.csv },
};

/** A PNG of one point. */
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const picture = { png: PNG, width: 1, height: 1, caption: "" };

const tfEventsIn = (folder: string) =>
  [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) => name.includes("tfevents")).sort();

Deno.test("a run and its resume are in TensorBoard and CSV as in events.jsonl", () =>
  inTemp(async (cwd) => {
    const flags = [...TINY, "--model=cosmo-cnn", "--data-type=synthetic", "--log-interval=1", "--no-wandb"];
    const more = ["--track=tensorboard,csv", "--histograms=4", "--images=2", "--wandb-project=my maps"];
    const { stdout } = await succeed([...flags, ...more, "--epochs=2", "--run-name=r"], { cwd });
    assertMatch(stdout, /CSV table +logs\/r\/metrics\.csv/);
    await succeed(["--run-name=r", "--resume=auto", "--epochs=4", ...more.slice(1), "--no-wandb"], { cwd });
    const { scalars, histograms, images, hparams, csv } = seenBelow(join(cwd, "logs"));
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

    const short = (values: [number, number][]) => values.map(([, x]) => Number(x.toPrecision(9)));
    assertEquals(csv.r.step, range(1, 16));
    assertEquals(csv.r["train/loss"], short(told("step", "loss")));
    assertEquals(csv.r["val/loss"].flatMap((x) => x ?? []), told("eval", "val_loss").map(([, x]) => x));
    assertEquals(csv.r["val/loss"].flatMap((x, i) => x === null ? [] : [i + 1]), [4, 8, 12, 16]);
  }));

Deno.test("killed, failed and strange runs: each step once, NaN, names of all kinds", () =>
  inTemp((logs) => {
    const folder = join(logs, "killed"), csv = join(folder, "metrics.csv");
    const open = (run: TrackedRun) => openAll(SINKS, run);
    let header = "";
    const killed = writeKilled(logs, open, (killed) => {
      for (const n of [10, 20, 24]) {
        killed.note!({ kind: "histograms", t: 0, step: n, of: { w: { values: [1, 2], bins: [0, 1, 2] } } });
        killed.note!({ kind: "pictures", t: 0, step: n, name: "p", pictures: [picture] });
      }
      // A kill may cut the last record of a file.
      for (const path of [csv, join(folder, tfEventsIn(folder)[0])]) {
        Deno.truncateSync(path, Deno.statSync(path).size - 3);
      }
      header = Deno.readTextFileSync(csv).split("\n")[0];
    });
    assertEquals(Deno.readTextFileSync(csv).split("\n")[0], header, "columns stay where they are");
    assertEquals(tfEventsIn(folder).length, 2, "a file an attempt");
    writeStrange(logs, open);
    assertEquals([...Deno.readDirSync(join(logs, "never"))], [], "a start that fails leaves nothing");

    const seen = seenBelow(logs);
    assertEquals(stepsIn(seen.scalars.killed["train/loss"]), range(1, 30));
    assertEquals(
      seen.scalars.killed["val/loss"],
      KILLED_EVALUATIONS.map(([step, x]): [number, number] => [step, Math.fround(x)]),
    );
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
    assertEquals(seen.csv.failed['val/r2/sea, "ice" '], [null, 0.5]);
    assertEquals(seen.csv.failed["val/r2/salz%"], [null, "-inf"] as never);
    assertEquals(seen.hparams.map(({ name, status }) => [name, status]).sort(), [["failed", 2], [
      "killed",
      0,
    ]]);
    assertEquals(seen.hparams[0].hparams, runIn(logs, "").hyperparameters);
    killed.close();
  }));

Deno.test({
  name: "a full disk costs records of the outputs, warns, and leaves files that can be read",
  ignore: !ROOT_USER,
  fn: () => {
    const url = (name: string) => new URL(`../../../../core/outputs/${name}/sink.ts`, import.meta.url).href;
    const modules = {
      tensorboard: { url: url("tensorboard"), pathOf: PATHS.tensorboard },
      csv: { url: url("csv"), pathOf: PATHS.csv },
    };
    return onFullDisk(modules, ({ logs, warnings }) => {
      for (const name of Object.keys(modules)) {
        assert(
          warnings.some((text) => text.includes(`of the ${name} could not be written`)),
          warnings.join("\n"),
        );
      }
      const { scalars, csv } = seenBelow(logs), found = stepsIn(scalars.full["train/loss"]);
      assertEquals([found.slice(0, 20), found.slice(-10)], [range(1, 20), range(401, 410)]);
      assertEquals(csv.full.step.slice(-10), range(401, 410));
    });
  },
});

Deno.test("an unknown name of --track is refused with those there are, and each of those is an output", async () => {
  assertSentence(
    "core/outputs/tracked/tracked: must commas between",
    assertThrows(() => resolveSettings({ argv: ["--track", "csv,tensorbord"], env: {} }), Error),
    { join: TRACKS.join(", ") },
  );
  assertEquals(resolveSettings({ argv: [], env: { HPCTRAIN_TRACK: "csv" } }).config.output.track, ["csv"]);
  assertEquals((await trackedOutputs(["csv"])).length, 1);
  assertEquals((await trackedOutputs(TRACKS)).length, TRACKS.length);
});

Deno.test("crc32c gives the published check value of CRC-32C", () =>
  assertEquals(crc32c(new TextEncoder().encode("123456789")), 0xe3069283));
