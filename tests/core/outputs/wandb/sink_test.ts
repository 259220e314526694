// The writer of a W&B run: rows, summary, attempts, faults of disk and clock.
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { dirname, join } from "paths";
import { byPart } from "../../../../core/run/account.ts";
import { encodeEvent, type Event } from "../../../../core/run/events.ts";
import { WandbRun } from "../../../../core/outputs/wandb/sink.ts";
import type { WandbRecord, WandbSetup } from "../../../../core/outputs/wandb/records.ts";
import { inTemp, onDisk, ROOT_USER } from "../../../integration/program.ts";
import { at, epochEnd, exit, recordsOf, rowsOf, setupIn, step, steps, stepsOf, valueOf } from "./runs.ts";

type Of<K extends WandbRecord["kind"]> = Extract<WandbRecord, { kind: K }>;

const all = <K extends WandbRecord["kind"]>(path: string, kind: K): Of<K>[] =>
  recordsOf(path).filter((record): record is Of<K> => record.kind === kind);

/** The summary as the server has it: later records over earlier ones. */
const summaryOf = (path: string): Record<string, unknown> =>
  Object.fromEntries(
    recordsOf(path).flatMap((record) => record.kind === "summary" ? record.update : [])
      .map(({ key, json }) => [key[0], valueOf(json)]),
  );

/** Without `close`, what stands in the file when the process is killed. */
function write(setup: WandbSetup, events: Iterable<Event>, close = true): void {
  const run = new WandbRun(setup);
  for (const event of events) run.write(event);
  const left = Deno.readFileSync(setup.path);
  run.close();
  if (!close) Deno.writeFileSync(setup.path, left);
}

/** As a resumed run is set up: the step is done. */
const resumedAt = (folder: string, done: number, more: Partial<WandbSetup> = {}): WandbSetup =>
  setupIn(folder, {
    again: { step: done, epoch: Math.floor(done / 10) },
    pace: { step: done, stepInEpoch: done % 10, stepsPerEpoch: 10, maxSteps: 0 },
    ...more,
  });

function writeEvents(folder: string, events: Iterable<Event>): void {
  const lines = [...events].map(({ t, ...event }) => encodeEvent(event, t) + "\n");
  Deno.writeTextFileSync(join(folder, "events.jsonl"), lines.join(""));
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

Deno.test("a run has a row for each step, and an evaluation stands in the row of its step", () =>
  inTemp((folder) => {
    const setup = setupIn(folder);
    write(setup, [...steps(1, 25), exit(0, 25)]);
    const rows = rowsOf(setup.path);
    assertEquals(stepsOf(setup.path), range(1, 25));
    assertEquals(rows[0], {
      _step: 1,
      _timestamp: at(1),
      _runtime: 1,
      epoch: 1,
      "train/loss": 1,
      "train/lr": 1e-3,
      "train/grad_norm": 0.5,
    });
    const { "val/loss": loss, "val/accuracy": accuracy, "train/epoch_loss": mean, "train/loss": own } =
      rows[9];
    assertEquals([loss, accuracy, mean, own], [1, 0.1, 0.7, 0.1]);
    assertEquals(Object.keys(rows[10]).filter((name) => /^val|epoch_/.test(name)), []);
    assertEquals(recordsOf(setup.path).at(-1), { kind: "exit", code: 0, runtime: 26 });
  }));

Deno.test("the run record has the settings and all that W&B knows a run by", () =>
  inTemp((folder) => {
    const setup = setupIn(folder);
    write(setup, []);
    const [run] = all(setup.path, "run") as Of<"run">[];
    const { id, project, entity, name, group, jobType, notes, tags, git, startTime } = run;
    assertEquals({ id, project, entity, name, group, jobType, notes, tags, startTime }, {
      id: "r1",
      project: "maps",
      entity: "team",
      name: "first",
      group: "g",
      jobType: "train",
      notes: "n",
      tags: ["a", "b"],
      startTime: 1_700_000_000,
    });
    assertEquals(git, setup.environment.git as typeof git);
    const config = Object.fromEntries(run.config!.map(({ key, json }) => [key[0], JSON.parse(json)]));
    assertEquals(config, setup.config as typeof config);
    assertEquals(all(setup.path, "environment"), []); // a wandb of 2024 stops at one
    const facts = JSON.parse(Deno.readTextFileSync(join(dirname(setup.path), "files/wandb-metadata.json")));
    assertEquals([facts.slurm, facts.git, facts.args], [{ job_id: "7" }, setup.environment.git, [
      "--epochs",
      "3",
    ]]);
  }));

Deno.test("the summary has the last values and the best evaluation, not the last one", () =>
  inTemp((folder) => {
    const setup = setupIn(folder);
    const losses = [0.5, 0.2, NaN, 0.4];
    write(setup, losses.flatMap((loss, i) => [step(10 * (i + 1)), ...epochEnd(i + 1, loss)]));
    const summary = summaryOf(setup.path);
    assertEquals([summary["best/loss"], summary["best/epoch"], summary["best/step"]], [0.2, 2, 20]);
    assertEquals([summary["val/loss"], summary._step, summary["best/accuracy"]], [0.4, 40, 0.2]);
  }));

Deno.test("a run that is killed at once has the summary of its first step, though times of no step came before it", () =>
  inTemp((folder) => {
    const setup = setupIn(folder);
    const start: Event = { t: at(0.5), kind: "times", step: 0, steps: 0, seconds: 0.5, ...byPart(() => 0) };
    write(setup, [start, step(1), { ...step(2), t: at(1.1) }], false);
    assertEquals(summaryOf(setup.path)._step, 1);
  }));

Deno.test("NaN and infinities, names with dots, slashes, emoji and 10 KB, and a clock that is set back are written as they are", () =>
  inTemp((folder) => {
    const setup = setupIn(folder);
    const long = "m".repeat(10_000), names = ["a.b", "a/b", "🎉 é", long, '"\\\n'];
    const metrics = Object.fromEntries(names.map((name, i) => [name, i]));
    write(setup, [
      { ...step(1), loss: NaN, lr: Infinity, grad_norm: -Infinity } as Event,
      { ...step(2), t: at(-3000) },
      { ...step(3), t: at(-2999) },
      { t: at(-2998), kind: "eval", step: 10, epoch: 1, val_loss: NaN, metrics, samples: 1, seconds: 1 },
      exit(0, 10),
    ]);
    const [first, second, third, last] = rowsOf(setup.path);
    assertEquals([first["train/loss"], first["train/lr"], first["train/grad_norm"]], [
      NaN,
      Infinity,
      -Infinity,
    ]);
    assertEquals([second, third].map((row) => [row._timestamp, row._runtime]), [[at(-3000), 1], [
      at(-2999),
      2,
    ]]);
    names.forEach((name, i) => assertEquals(last[`val/${name}`], i));
  }));

Deno.test("what a kill leaves has every row but the one that is still open", () =>
  inTemp((folder) => {
    const setup = setupIn(folder);
    const run = new WandbRun(setup);
    for (const event of steps(1, 25)) run.write(event);
    assertEquals(stepsOf(setup.path), range(1, 25)); // nothing was closed or flushed
    for (let n = 26; n <= 30; n++) run.write(step(n));
    assertEquals(stepsOf(setup.path), range(1, 29)); // an evaluation of step 30 is to come
    run.close();
    assertEquals(stepsOf(setup.path), range(1, 30));
  }));

for (const done of [7, 10, 13, 20]) {
  Deno.test(`a run that goes on after step ${done} is one file with each step once, and one beginning`, () =>
    inTemp((folder) => {
      const first = setupIn(folder);
      write(first, steps(1, 23), false); // killed
      for (const [from, to] of [[done, 26], [26, 29], [20, 30]]) {
        const setup = resumedAt(folder, from);
        write(setup, steps(from + 1, to), from !== 26);
      }
      write(resumedAt(folder, 30), [...steps(31, 33), exit(0, 33)]);
      assertEquals(stepsOf(first.path), range(1, 33));
      for (const kind of ["run", "header", "exit"] as const) {
        assertEquals(all(first.path, kind).length, 1, kind);
      }
      const evaluated = rowsOf(first.path).filter((row) => "val/loss" in row).map((row) => row._step);
      assertEquals(evaluated, [10, 20, 30]);
      assertEquals(summaryOf(first.path)["best/step"], 30);
    }));
}

Deno.test("time that nobody trained is not the run's, and its start stays", () =>
  inTemp((folder) => {
    write(setupIn(folder), [...steps(1, 5)]);
    const later = setupIn(folder).run;
    const setup = resumedAt(folder, 5, { run: { ...later, startTime: at(1000) } });
    write(setup, [{ ...step(6), t: at(1003) }]);
    assertEquals(rowsOf(setup.path).map((row) => row._runtime), [1, 2, 3, 4, 5, 8]);
    assertEquals((all(setup.path, "run")[0] as Of<"run">).startTime, at(0));
  }));

Deno.test("a row that a kill has taken is made from the run's events", () =>
  inTemp((folder) => {
    const setup = setupIn(folder);
    write(setup, steps(1, 14), false);
    writeEvents(folder, [...steps(1, 20), ...steps(21, 22)]);
    write(resumedAt(folder, 20), steps(21, 25));
    assertEquals(stepsOf(setup.path), range(1, 25));
    assertEquals(rowsOf(setup.path)[19]["val/loss"], 0.5);
  }));

Deno.test("a run that was saved before its evaluation evaluates again, and its row has that once", () =>
  inTemp((folder) => {
    const setup = setupIn(folder);
    write(setup, steps(1, 23), false);
    const [evaluation, end] = epochEnd(2, 0.125);
    const again = resumedAt(folder, 20, {
      again: { step: 20, epoch: 1 },
      pace: { step: 20, stepInEpoch: 10, stepsPerEpoch: 10, maxSteps: 0 },
    });
    write(again, [evaluation, end, ...steps(21, 22)]);
    assertEquals(stepsOf(setup.path), range(1, 22));
    const rows = rowsOf(setup.path);
    assertEquals([rows[19]["val/loss"], rows[19]["train/loss"], rows[20]["val/loss"]], [
      0.125,
      0.05,
      undefined,
    ]);
  }));

Deno.test("of a file that was uploaded nothing is written again, and the new one goes on behind it", () =>
  inTemp((folder) => {
    const first = setupIn(folder);
    write(first, steps(1, 23));
    const path = first.path.replace("030405", "040506");
    const setup = resumedAt(folder, 20, {
      path,
      uploaded: [first.path],
      run: { ...first.run, resume: true },
    });
    write(setup, steps(21, 27));
    assertEquals(stepsOf(path), range(24, 27));
    assertEquals((all(path, "run")[0] as Of<"run">).resume, true);
    assertEquals(summaryOf(path)["best/step"], 20);
    assertEquals(stepsOf(first.path), range(1, 23));
  }));

Deno.test("rows that are at the server already stay, also those of steps that are done again", () =>
  inTemp((folder) => {
    const setup = setupIn(folder);
    write(setup, steps(1, 18), false);
    write(resumedAt(folder, 12, { after: 15 }), steps(13, 19));
    assertEquals(stepsOf(setup.path), range(1, 19));
    assertEquals(rowsOf(setup.path)[14]._timestamp, at(15));
  }));

Deno.test("a last record that was cut goes, and the run goes on behind the whole ones", () =>
  inTemp((folder) => {
    const setup = setupIn(folder);
    write(setup, steps(1, 9), false);
    const size = Deno.statSync(setup.path).size;
    let cut = 0;
    while (stepsOf(setup.path).length === 9) Deno.truncateSync(setup.path, size - ++cut);
    write(resumedAt(folder, 9), steps(10, 12));
    assertEquals(stepsOf(setup.path), [...range(1, 8), 10, 11, 12]); // step 9 was lost with its event
  }));

Deno.test("console lines, machine metrics, ranks and times are kept, the console's last lines before the end", () =>
  inTemp((folder) => {
    const setup = setupIn(folder);
    const run = new WandbRun(setup);
    run.note({ kind: "console", t: at(0), stream: "stdout", text: "début" });
    run.write(step(1));
    run.write({ t: at(1), kind: "system", step: 1, rank: 1, rss_bytes: 2 ** 21, gpu_percent: 99, host: "n" });
    const seconds = {
      data_s: 1,
      copy_s: 0,
      compute_s: 2,
      communication_s: 0,
      optimizer_s: 0,
      save_s: 0,
    };
    run.write({
      t: at(1),
      kind: "times",
      step: 1,
      steps: 10,
      ...seconds,
      seconds: 3,
      evaluation_s: 0,
      rest_s: 0,
      samples_per_s: 5,
    });
    run.write({
      ...{ t: at(1), kind: "ranks", step: 1, steps: 10, slowest: 1, spread: 0.1 },
      ...byPart(() => [0, 0]),
      ...{ data_s: [0.1, 0.2], compute_s: [1, 2] },
    });
    run.write(step(2));
    run.write(exit(5, 2));
    run.note({ kind: "console", t: at(3), stream: "stdout", text: "Finished" });
    run.close(5);
    const lines = all(setup.path, "output") as Of<"output">[];
    assertEquals(lines.map(({ text, stream }) => [text, stream]), [
      ["début\n", "stdout"],
      ["hpctrain: Finished\n", "stderr"],
      ["Finished\n", "stdout"],
    ]);
    const stats = (all(setup.path, "stats") as Of<"stats">[]).map(({ items }) =>
      Object.fromEntries(items.map(({ key, json }) => [key[0], Number(json)]))
    );
    assertEquals(stats[0], { "rank.1.proc.memory.rssMB": 2, "gpu.1.gpu": 99 });
    assertEquals(stats[1]["rank.1.compute_ms"], 200);
    const { "time/compute_ms": compute, "time/samples_per_s": rate } = rowsOf(setup.path)[1];
    assertEquals([compute, rate], [200, 5]);
    assertEquals(recordsOf(setup.path).at(-1), { kind: "exit", code: 5, runtime: 3 });
  }));

Deno.test("a run that is to go on ends as one that was preempted", () =>
  inTemp((folder) => {
    const setup = setupIn(folder);
    write(setup, [step(1), exit(75, 1)]);
    assertEquals(recordsOf(setup.path).slice(-2).map(({ kind }) => kind), ["preempting", "exit"]);
    write(resumedAt(folder, 1), [step(2)]);
    assertEquals(all(setup.path, "preempting"), []);
  }));

Deno.test("pictures are files of the run, and histograms and pictures stand in the row of their step", () =>
  inTemp((folder) => {
    const setup = setupIn(folder);
    const run = new WandbRun(setup);
    const picture = { png: btoa("not looked into"), width: 2, height: 3, caption: "seven" };
    run.note({ kind: "pictures", t: at(2), step: 2, name: "samples", pictures: [picture] });
    run.note({
      kind: "histograms",
      t: at(2),
      step: 2,
      of: { "weights/a": { values: [1, 2], bins: [0, 1, 2] } },
    });
    run.write(step(2));
    run.close();
    const [row] = rowsOf(setup.path) as Record<string, Record<string, unknown>>[];
    assertEquals(row["weights/a"], { _type: "histogram", values: [1, 2], bins: [0, 1, 2] });
    assertEquals([row.samples._type, row.samples.captions], ["images/separated", ["seven"]]);
    const [name] = row.samples.filenames as string[];
    assertEquals(Deno.readTextFileSync(join(dirname(setup.path), "files", name)), "not looked into");
    const files = (all(setup.path, "files") as Of<"files">[]).flatMap(({ files }) => files);
    assertEquals(files.map(({ path, type }) => [path, type]), [["wandb-metadata.json", "wandb"], [
      name,
      "media",
    ]]);
  }));

Deno.test("files that go with the run are the newest of their name, without another copy", () =>
  inTemp((folder) => {
    const source = join(folder, "r_best.pt");
    const setup = setupIn(folder, { files: [{ name: "checkpoints/best.pt", source }] });
    const run = new WandbRun(setup);
    const save: Event = {
      ...{
        t: at(1),
        kind: "save",
        step: 1,
        epoch: 1,
        path: "",
        bytes: 1,
        seconds: 1,
        stall_s: 0,
        reason: "best",
      },
    } as Event;
    run.write(save); // there is none yet
    Deno.writeTextFileSync(source, "old");
    run.write(save);
    Deno.writeTextFileSync(`${source}.new`, "new");
    Deno.renameSync(`${source}.new`, source);
    run.write(exit(0, 1));
    run.close();
    const linked = join(dirname(setup.path), "files/checkpoints/best.pt");
    assertEquals(Deno.readTextFileSync(linked), "new");
    assertEquals(Deno.statSync(linked).ino, Deno.statSync(source).ino);
    const named = (all(setup.path, "files") as Of<"files">[]).flatMap(({ files }) => files)
      .filter(({ path }) => path === "checkpoints/best.pt");
    assertEquals(named.length, 1);
  }));

Deno.test("a folder that is removed under the run is made again, and the run goes on in it", () =>
  inTemp((folder) => {
    const setup = setupIn(folder);
    const run = new WandbRun(setup);
    for (const event of steps(1, 5)) run.write(event);
    Deno.removeSync(dirname(setup.path), { recursive: true });
    for (const event of [...steps(6, 12), exit(0, 12)]) run.write(event);
    run.close();
    assertEquals(stepsOf(setup.path), [11, 12]);
    assertEquals(all(setup.path, "run").length, 1);
  }));

Deno.test({
  name: "a full disk costs records, is told, and leaves a whole file that goes on when there is room",
  ignore: !ROOT_USER,
  fn: () =>
    onDisk(1, (disk) => {
      const setup = setupIn(disk);
      const run = new WandbRun(setup);
      for (let n = 1; n <= 5; n++) run.write(step(n));
      const filler = join(disk, "filler");
      assertThrows(() => Deno.writeFileSync(filler, new Uint8Array(2 << 20)));
      let lost = 0, n = 6;
      for (; lost === 0 && n < 5000; n++) {
        try {
          run.write(step(n));
        } catch (error) {
          assertStringIncludes((error as Error).message, "No space left");
          lost = n;
        }
      }
      assert(lost > 0);
      Deno.removeSync(filler);
      for (let next = lost + 1; next < lost + 5; next++) run.write(step(next));
      run.close();
      assertEquals(stepsOf(setup.path), [...range(1, lost - 1), ...range(lost + 1, lost + 4)]);
      return Promise.resolve();
    }),
});

Deno.test("a row of scalars takes less than 200 bytes", () =>
  inTemp((folder) => {
    const setup = setupIn(folder, { pace: { step: 0, stepInEpoch: 0, stepsPerEpoch: 1000, maxSteps: 0 } });
    const run = new WandbRun(setup);
    const before = Deno.statSync(setup.path).size, rows = 5000;
    for (let n = 1; n <= rows; n++) {
      const [loss, norm] = new Float32Array([Math.random(), 3 * Math.random()]);
      run.write({
        ...{ t: 1795308112.875 + n / 1000, kind: "step", step: n, epoch: 1 + Math.floor(n / 1000), loss },
        ...{
          lr: 3e-4 * Math.cos(n / rows),
          grad_norm: norm,
          samples_per_s: 19255.6,
          memory_bytes: 276393984,
        },
        data_s: 0.0001,
      });
    }
    const each = (Deno.statSync(setup.path).size - before) / rows;
    run.close();
    assert(each < 200, `${each} bytes`);
  }));
