// Rows read from the two ends of a run's files, beside what the reader of all events says.
import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { linesAround } from "../../../../core/outputs/runs/ends.ts";
import { findRuns } from "../../../../commands/run/runs.ts";
import { rowOf } from "../../../../core/outputs/runs/row.ts";
import { flat } from "../../../../core/run/flat_settings.ts";
import { csvLines, runsJson, tableLines } from "../../../../core/outputs/runs/table.ts";
import { key, uniform } from "../../../../core/base/random.ts";
import { readRun } from "../../../../core/run/run_data.ts";
import { progressOf, runStatusOf } from "../../../../core/run/status.ts";
import { type MadeRun, makeRun } from "../../run/made_run.ts";

const NOW = 1_790_100_000;

async function inFolder(body: (folder: string) => void): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    body(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const changed = (path: string, change: (text: string) => string) =>
  Deno.writeTextFileSync(path, change(Deno.readTextFileSync(path)));

Deno.test("a row says what the reader of all events says, of short runs and long ones", () =>
  inFolder((folder) => {
    const made: MadeRun[] = [
      { name: "short", steps: 50, epochs: 5 },
      { name: "long", steps: 6000, epochs: 12, attempts: 3 },
      { name: "failed", steps: 900, exit: 6 },
      { name: "stopped", steps: 2500, exit: 75 },
      { name: "going", steps: 3000, exit: null, begun: NOW - 155 },
      { name: "silent", steps: 3000, exit: null },
      { name: "gone", steps: 100, exit: null, host: Deno.hostname(), pid: 2 ** 22 + 1 },
      { name: "nan", steps: 100, epochs: 1, nan: [100] },
    ];
    for (const one of made) {
      const path = makeRun(folder, one), row = rowOf(path, NOW), data = readRun(path);
      const { state, why } = runStatusOf(data, NOW), progress = progressOf(data);
      assertEquals([row.run, row.state, row.why], [one.name!, state, why]);
      assertEquals([row.best, row.bestStep, row.metrics], [
        data.best!.loss,
        data.best!.step,
        data.bestMetrics,
      ]);
      assertEquals([row.step, row.steps, row.epoch], [progress.step, progress.steps, progress.epoch]);
      assertEquals(row.goodput, data.lineage!.goodput_percent);
      assertEquals([...row.settings], flat(data.config));
      assert(row.seconds! > 0 && row.problem === null);
      if (state === "running") assertAlmostEquals(row.secondsLeft!, progress.secondsLeft!, 0.5);
    }
    assertEquals(rowOf(join(folder, "logs/failed"), NOW).failure, "numerics");
  }));

Deno.test("the best of a long run is found with its metrics, wherever it stands", () =>
  inFolder((folder) => {
    const path = makeRun(folder, { steps: 8000, epochs: 20 });
    const best = { loss: 0.0625, step: 4000, epoch: 10 };
    changed(join(path, "events.jsonl"), (text) =>
      text.replace(/("kind":"(eval|epoch)","step":4000,.*?"val_loss":)[\d.]+/g, "$10.0625"));
    changed(join(path, "lineage.json"), (text) => {
      const lineage = JSON.parse(text);
      lineage.attempts[0].best = best;
      return JSON.stringify(lineage);
    });
    const row = rowOf(path, NOW);
    assertEquals([row.best, row.bestStep, row.bestEpoch], [0.0625, 4000, 10]);
    assertEquals(row.metrics, readRun(path).bestMetrics);
    assert(row.metrics.accuracy > 0.5);
    for (const step of [1, 2, 777, 4001, 7999, 8000]) {
      const near = linesAround(join(path, "events.jsonl"), step);
      assert(
        near.some((line) =>
          line.includes(`"kind":"step","step":${step},`)
        ),
        String(step),
      );
    }
    Deno.removeSync(join(path, "lineage.json"));
    assertMatch(rowOf(path, NOW).problem!, /^lineage\.json is missing, so/);
  }));

Deno.test("the settings are those of the last attempt, though others began the log", () =>
  inFolder((folder) => {
    const path = makeRun(folder, { steps: 8000, attempts: 2, learningRate: 1e-3 });
    changed(join(path, "events.jsonl"), (text) => {
      const lines = text.split("\n");
      const again = lines.slice(0, 2).map((line) =>
        line.replace('"learning_rate":0.001', '"learning_rate":0.5')
      );
      lines.splice(lines.findIndex((line) => line.includes('"kind":"step","step":4001,')), 0, ...again);
      return lines.join("\n");
    });
    assertEquals(rowOf(path, NOW).settings.get("training.optimizer.learning_rate"), "0.5");
  }));

Deno.test("a run without validation has its last training loss, and a stopped one may be requeued", () =>
  inFolder((folder) => {
    const path = makeRun(folder, { steps: 60, epochs: 3, exit: 75 });
    changed(
      join(path, "events.jsonl"),
      (text) =>
        text.split("\n").filter((line) => !line.includes('"kind":"eval"'))
          .map((line) =>
            line.replace(/"val_loss":[\d.]+,/, "").replace('"code":75', '"code":75,"requeues":true')
          ).join("\n"),
    );
    const row = rowOf(path, NOW);
    assertEquals([row.metric, row.state], ["loss", "requeued"]);
    assertEquals(row.best, readRun(path).curves.get("loss")!.last);
    changed(
      join(path, "events.jsonl"),
      (text) => text.split("\n").filter((line) => !line.includes('"kind":"step"')).join("\n"),
    );
    assertEquals(rowOf(path, NOW).best, null, "an epoch's mean is no step's loss");
  }));

Deno.test("folders that are broken or half-written are rows with a sentence", () =>
  inFolder((folder) => {
    const logs = join(folder, "logs");
    const place = (name: string, files: Record<string, string>, old = true) => {
      Deno.mkdirSync(join(logs, name), { recursive: true });
      for (const [file, text] of Object.entries(files)) {
        Deno.writeTextFileSync(join(logs, name, file), text);
        if (old) Deno.utimeSync(join(logs, name, file), 1e9, 1e9);
      }
    };
    makeRun(folder, { name: "whole", steps: 10 });
    place("empty", {});
    place("no-events", { "rank-0.log": "x" });
    place("nothing-in-it", { "events.jsonl": "" });
    place("half-a-line", { "events.jsonl": '{"t":1790000000,"kind":"ru' });
    place("no-json", { "events.jsonl": `${"\0\xff{[".repeat(1e5)}\n\n` });
    place("odd-types", {
      "events.jsonl":
        '{"t":"x","kind":"exit"}\n[]\nnull\n{"t":1790000000,"kind":"eval","step":"one","val_loss":{}}\n' +
        '{"t":1790000001,"kind":"run","run":5,"steps_per_epoch":"many"}\n{"t":1790000002,"kind":"config","config":[1]}\n',
    });
    place("damaged-lineage", {
      "events.jsonl": Deno.readTextFileSync(join(logs, "whole/events.jsonl")),
      "lineage.json": "{",
    });
    place("beginning", { "events.jsonl": "" }, false);
    Deno.mkdirSync(join(logs, "folder/events.jsonl"), { recursive: true });
    new Deno.Command("mkfifo", { args: [join(logs, "empty/../pipe")] }).outputSync();
    place("a-pipe", {});
    new Deno.Command("mkfifo", { args: [join(logs, "a-pipe/events.jsonl")] }).outputSync();
    Deno.symlinkSync(logs, join(logs, "round"));
    Deno.symlinkSync("/nowhere", join(logs, "lost"));
    Deno.mkdirSync(join(logs, "wandb"));

    const { folders, notes } = findRuns(folder);
    assertEquals(notes, []);
    const rows = Object.fromEntries(
      folders.map((path) => [path.slice(logs.length + 1), rowOf(path, Date.now() / 1000)]),
    );
    assertEquals(Object.keys(rows).sort(), [
      "a-pipe",
      "beginning",
      "damaged-lineage",
      "empty",
      "folder",
      "half-a-line",
      "no-events",
      "no-json",
      "nothing-in-it",
      "odd-types",
      "whole",
    ]);
    const broken = (name: string, why: RegExp) => {
      assertEquals(rows[name].state, "broken", name);
      assertMatch(rows[name].why, why);
    };
    broken("empty", /^events\.jsonl is missing/);
    broken("no-events", /^events\.jsonl is missing/);
    broken("nothing-in-it", /^events\.jsonl is empty/);
    broken("half-a-line", /^events\.jsonl has no event that can be read/);
    broken("no-json", /^events\.jsonl has no event that can be read/);
    broken("folder", /^events\.jsonl is no file$/);
    broken("a-pipe", /^events\.jsonl is no file$/);
    assertEquals(rows["beginning"].state, "starting");
    assertEquals([rows["odd-types"].run, rows["odd-types"].best], ["5", null]);
    assertEquals(rows["damaged-lineage"].state, "done");
    assertMatch(rows["damaged-lineage"].problem!, /lineage\.json: is not what hpctrain writes/);
  }));

Deno.test("files with damage anywhere give a row, and every table takes it", () =>
  inFolder((folder) => {
    const path = makeRun(folder, { steps: 60, epochs: 3, ranks: 2, attempts: 2, exit: 75 });
    const whole = ["events.jsonl", "lineage.json"].map((name) => Deno.readTextFileSync(join(path, name)));
    const draw = uniform(key(7, "damage")),
      words = ["null", "[]", "{}", '"x"', "1e300", "-1", '"NaN"', "true", ""];
    let at = 0;
    const next = (below: number) => Math.floor(below * draw(at++));
    for (let trial = 0; trial < 200; trial++) {
      const texts = [...whole], which = next(2);
      for (let times = 1 + next(4); times > 0; times--) {
        const text = texts[which], from = next(text.length);
        // A value becomes another one, or bytes are lost.
        const value = /:("[^"]*"|[\d.-]+|\[[^\]]*\]|\{[^}]*\})/g;
        value.lastIndex = from;
        const found = next(4) > 0 ? value.exec(text) : null;
        texts[which] = found
          ? text.slice(0, found.index + 1) + words[next(words.length)] + text.slice(value.lastIndex)
          : text.slice(0, from) + text.slice(from + next(200));
      }
      ["events.jsonl", "lineage.json"].forEach((name, i) =>
        Deno.writeTextFileSync(join(path, name), texts[i])
      );
      const rows = [rowOf(path, NOW)], shown = { rows, differ: [...rows[0].settings.keys()], now: NOW };
      assert(tableLines(shown, 80, { colour: false, unicode: true }).length === 2, texts[which]);
      assert(csvLines(shown).length >= 2 && JSON.parse(runsJson(shown)).runs.length === 1);
    }
  }));

Deno.test("runs are found at any place below a folder, a run within a run is not, and a folder itself may be one", () =>
  inFolder((folder) => {
    const one = makeRun(join(folder, "a/b"), { name: "one", steps: 5 });
    makeRun(join(folder, "c"), { name: "two", steps: 5 });
    Deno.mkdirSync(join(one, "inner"));
    Deno.writeTextFileSync(join(one, "inner/events.jsonl"), "");
    Deno.mkdirSync(join(folder, "elsewhere"));
    Deno.renameSync(join(folder, "c/logs"), join(folder, "elsewhere/logs"));
    Deno.symlinkSync(join(folder, "elsewhere/logs"), join(folder, "c/logs"));
    const found = findRuns(folder).folders.map((path) => path.slice(folder.length + 1)).sort();
    assertEquals(found.map((path) => path.split("/").at(-1)), ["one", "two"]);
    assertEquals(findRuns(one).folders, [one]);
  }));
