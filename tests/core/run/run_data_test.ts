import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { join } from "paths";
import { openRun, readRun, type RunData } from "../../../core/run/run_data.ts";
import { type MadeRun, makeRun } from "./made_run.ts";
import { measured } from "../../cpu_time.ts";

function withRun(made: MadeRun, body: (logs: string) => void): void {
  const folder = Deno.makeTempDirSync();
  try {
    body(makeRun(folder, made));
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

const append = (logs: string, events: readonly unknown[], name = "events.jsonl") =>
  Deno.writeTextFileSync(
    join(logs, name),
    events.map((event) => JSON.stringify(event) + "\n").join(""),
    { append: true },
  );

Deno.test("a run's log becomes its curves, its best, its ranks, machines, saves and end", () =>
  withRun({ steps: 1000, epochs: 10, ranks: 4, gpus: true, warnings: ["one", "two"] }, (logs) => {
    const data = readRun(logs);
    assertEquals([data.name, data.step, data.epoch, data.stepsPerEpoch], ["made", 1000, 10, 100]);
    assertEquals(data.curves.get("loss")!.length, 1000);
    assertEquals(data.curves.get("val_loss")!.length, 10);
    assertEquals([...data.metrics], ["perplexity", "accuracy"]);
    assertEquals(data.best?.step, 1000);
    assertEquals(Object.keys(data.bestMetrics), ["perplexity", "accuracy"]);
    assertEquals([data.ranks!.slowest, data.ranksTotal!.steps, data.ranksTotal!.spent.length], [2, 1000, 4]);
    assertAlmostEquals(data.timeOfSteps.compute_s / data.timesSteps, 0.0362, 0.0015);
    assertEquals(data.curves.get("mfu")!.length, 10);
    assertEquals([...data.system.keys()], [0, 1, 2, 3]);
    assertEquals(data.systemCurves.get("gpu_percent")!.get(1)!.last, 41);
    assertEquals([data.saves, data.lastSave!.reason, Math.round(data.stallSeconds)], [10, "epoch", 2]);
    assertEquals([data.warningCount, data.warnings.map(({ message }) => message)], [2, ["one", "two"]]);
    assertEquals([data.exit!.code, data.lineage!.attempts.length], [0, 1]);
    assertEquals(data.origins, { "training.epochs": "--epochs" });
  }));

Deno.test("an evaluation that is not finite is never a run's best, for report, watch, status and sweeps alike", () =>
  withRun({ steps: 10, epochs: 1 }, (logs) => {
    const t = 1_790_001_000;
    const before = readRun(logs).best;
    append(
      logs,
      ["-Infinity", "Infinity", "NaN"].map((val_loss, i) => ({
        t,
        kind: "eval",
        step: 11 + i,
        epoch: 2,
        val_loss,
        metrics: { accuracy: 1 },
        samples: 1,
        seconds: 1,
      })),
    );
    assert(before !== null);
    assertEquals(readRun(logs).best, before);
  }));

Deno.test("what is added is heard, a resume takes back later steps, and a new start is no end", () =>
  withRun({ steps: 100, epochs: 1, exit: 75 }, (logs) => {
    const reader = openRun(logs);
    reader.poll();
    assertEquals(reader.data.exit!.code, 75);
    const t = 1_790_001_000;
    append(logs, [{ t, kind: "resume", step: 60, epoch: 0, path: "x" }]);
    reader.poll();
    assertEquals([reader.data.step, reader.data.curves.get("loss")!.length], [60, 60]);
    append(logs, [
      { t, kind: "run", run: "made", world_size: 1, steps_per_epoch: 50 },
      { t: t + 1, kind: "step", step: 61, epoch: 1, loss: 5, lr: 1, brand_new: 7 },
    ]);
    assertEquals(reader.poll(), true);
    const { data } = reader;
    assertEquals([data.step, data.exit, data.stepsPerEpoch], [61, null, 50]);
    assertEquals(data.curves.get("loss")!.length, 61);
    assertEquals(data.curves.get("brand_new")!.last, 7);
    assertEquals(reader.poll(), false);
    reader.close();
  }));

Deno.test("a log that is written anew is another record, and system files of ranks are read with it", () =>
  withRun({ steps: 100 }, (logs) => {
    append(logs, [{ t: 1, kind: "system", step: 5, rss_bytes: 77 }], "system-3.jsonl");
    const reader = openRun(logs);
    reader.poll();
    const before: RunData = reader.data;
    assertEquals(before.system.get(3)!.rss_bytes, 77);
    const path = join(logs, "events.jsonl");
    Deno.writeTextFileSync(path + ".new", `{"t":1,"kind":"step","step":1,"epoch":1,"loss":1,"lr":1}\n`);
    Deno.renameSync(path + ".new", path);
    reader.poll();
    assert(reader.data !== before);
    assertEquals([reader.data.step, reader.data.curves.get("loss")!.length], [1, 1]);
    assertEquals(reader.data.system.get(3)!.rss_bytes, 77);
    reader.close();
  }));

Deno.test("records of another making break nothing and fill no memory", () =>
  withRun({ steps: 5 }, (logs) => {
    const t = 1_790_000_100;
    const kinds = [
      "run",
      "config",
      "step",
      "eval",
      "epoch",
      "save",
      "resume",
      "system",
      "ranks",
      "times",
      "warning",
      "exit",
      "rewind",
      "zzz",
    ];
    append(
      logs,
      kinds.flatMap((kind) => [
        { t, kind },
        {
          t,
          kind,
          step: "9",
          epoch: {},
          loss: [],
          metrics: null,
          config: 4,
          origins: [],
          message: { a: 1 },
          data_s: [1, "x"],
        },
        {
          t,
          kind,
          step: -1,
          epoch: 1e300,
          rank: -5,
          metrics: { "": 1, __proto__: 2, constructor: 3 },
          steps: 0,
        },
      ]).filter(({ kind }) => kind !== "exit" && kind !== "resume"),
    );
    const many = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`field${i}`, i]));
    append(logs, [{ t, kind: "step", step: 7, epoch: 1, ...many }, {
      t,
      kind: "eval",
      step: 7,
      epoch: 1,
      val_loss: 1,
      metrics: many,
    }]);
    append(
      logs,
      Array.from({ length: 3000 }, (_, rank) => ({ t, kind: "system", step: 7, rank, rss_bytes: 1 })),
    );
    append(logs, Array.from({ length: 300 }, (_, i) => ({ t, kind: "warning", message: `w${i}` })));
    Deno.writeTextFileSync(join(logs, "lineage.json"), "{");
    const data = readRun(logs);
    assertEquals(data.step, 7);
    assert(data.curves.size <= 200 && data.metrics.size <= 200 && data.system.size <= 1025);
    assertEquals([data.warnings.length, data.warnings.at(-1)!.message], [50, "w299"]);
    assert(data.lineageError!.includes("damaged or edited"));
  }));

Deno.test("a hundred thousand steps are read in seconds, and what is added to them at once", () =>
  withRun({ steps: 100_000, epochs: 10 }, (logs) => {
    const reader = openRun(logs);
    const first = measured(() => reader.poll()).seconds;
    append(logs, [{ t: 1, kind: "step", step: 100_001, epoch: 11, loss: 1, lr: 1 }]);
    const later = measured(() => reader.poll()).seconds;
    assertEquals(reader.data.step, 100_001);
    assert(first < 10, `${first} s`);
    assert(later < first / 5, `${later} s after ${first} s`);
    reader.close();
  }));

/** So many megabytes of steps of two attempts, with a good evaluation where nobody looks. */
function writeLong(logs: string, megabytes: number): number {
  using file = Deno.openSync(`${logs}/events.jsonl`, { write: true, truncate: true });
  const write = (lines: string) => file.writeSync(new TextEncoder().encode(lines));
  const line = (event: object) => `${JSON.stringify(event)}\n`;
  const attempt = (pid: number) =>
    line({ t: 0, kind: "run", run: "made", host: "node001", pid, steps_per_epoch: 1000 });
  write(attempt(1) + line({ t: 0, kind: "config", config: { training: { epochs: 1000 } } }));
  let step = 0, written = 0;
  for (let half = 0; half < 2; half++) {
    for (; written < (half + 1) * megabytes * 5e5; written += 0) {
      let lines = "";
      for (const end = step + 5000; step < end;) {
        lines += line({
          t: ++step / 100,
          kind: "step",
          step,
          epoch: 1,
          loss: 1 / step,
          lr: 1e-3,
          grad_norm: 0.25,
        });
      }
      written += lines.length;
      write(lines);
    }
    if (half === 1) break;
    write(line({ t: step / 100, kind: "eval", step, epoch: 1, val_loss: 0.001, metrics: {} }));
    write(
      line({ t: step / 100, kind: "exit", code: 5, message: "lost", step, epoch: 1, seconds: 1 }) +
        attempt(2),
    );
  }
  return step;
}

const longLineage = (best: boolean) => {
  const ended = { why: "error", message: "lost", code: 5 };
  const lost = { restart_s: 0, save_stall_s: 3, redone_steps: 0, redone_s: 0 };
  const attempt = (number: number, first: number, more: object) => ({
    ...{
      attempt: number,
      host: "node001",
      job_id: null,
      ranks: 1,
      pid: number,
      started: 0,
      resumed_from: null,
    },
    ...{ first_step: first, last_step: first, first_step_at: null, last_seen: 0, ended: null, lost },
    ...more,
  });
  const found = best ? { best: { loss: 0.001, step: 100_000, epoch: 1 } } : {};
  return {
    version: 1,
    run: "made",
    parent: null,
    goodput_percent: 90,
    attempts: [attempt(1, 1, { ended, ...found }), attempt(2, 150_000, {})],
  };
};

Deno.test("of a log of many megabytes a sample tells how the run stands; its lineage tells what the sample has not", () =>
  withRun({ steps: 10 }, (logs) => {
    const steps = writeLong(logs, 60);
    const look = (lineage: object) => {
      Deno.writeTextFileSync(`${logs}/lineage.json`, JSON.stringify(lineage));
      const reader = openRun(logs, { sample: true });
      reader.poll();
      return reader;
    };
    const reader = look(longLineage(true)), { data } = reader;
    assertEquals([data.step, data.curves.get("loss")!.last, data.curves.get("loss")!.greatest], [
      steps,
      1 / steps,
      1,
    ]);
    assertEquals([data.exit, data.run?.pid, data.stallSeconds], [null, 2, 6]);
    assertEquals(data.best, { loss: 0.001, step: 100_000, epoch: 1 });
    assert(data.sampled && data.longestSilence < 1, `${data.longestSilence} s of silence`);
    assert(
      data.recent.every((one, i, all) => i === 0 || one.step === all[i - 1].step + 1),
      "the last steps are all there",
    );
    append(logs, [{ t: 1e9, kind: "step", step: steps + 1, epoch: 2, loss: 7, lr: 1 }]);
    reader.poll();
    assertEquals([data.step, data.curves.get("loss")!.last], [steps + 1, 7], "and what comes is read");
    reader.close();
    const without = look(longLineage(false));
    assertEquals(without.data.best, null, "the best of a sample need not be the best");
    without.close();
    assertEquals(readRun(logs).best?.loss, 0.001, "who wants all reads all");
  }));

Deno.test("how a run stands is known within moments, were its log of 2 GB", () =>
  withRun({ steps: 100 }, (logs) => {
    const tail = "\n" + Deno.readTextFileSync(`${logs}/events.jsonl`);
    using file = Deno.openSync(`${logs}/events.jsonl`, { write: true });
    file.truncateSync(2e9); // a hole costs no disk, and is read like all else
    file.seekSync(0, Deno.SeekMode.End);
    file.writeSync(new TextEncoder().encode(tail));
    const reader = openRun(logs, { sample: true });
    const { seconds } = measured(() => reader.poll());
    reader.close();
    assertEquals([reader.data.step, reader.data.exit?.code], [100, 0]);
    assert(seconds < 1, `${seconds} s of processor time`);
  }));
