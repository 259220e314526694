import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../../core/base/errors.ts";
import { type Emitted, readEvents } from "../../../../core/run/event_log.ts";
import { openRankTrack, openTrack, type TrackOptions } from "../../../../core/run/writer/track.ts";
import { measured } from "../../../cpu_time.ts";
import { assertSentence } from "../../../sentences.ts";

const step = (step: number): Emitted => ({ kind: "step", step, epoch: 1, loss: 1 / step, lr: 1e-3 });

async function inFolder(test: (logs: string) => Promise<void>): Promise<void> {
  const folder = Deno.makeTempDirSync();
  try {
    await test(join(folder, "logs", "run"));
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

const fail = (message: string) => {
  throw new Error(`unexpected warning: ${message}`);
};

/** Looks every few milliseconds, for as long as a busy machine may need. */
async function until(what: string, condition: () => boolean): Promise<void> {
  for (const began = performance.now(); !condition();) {
    if (performance.now() - began > 30_000) throw new Error(`not within 30 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const open = (logs: string, more: Partial<TrackOptions> = {}) =>
  openTrack(join(logs, "events.jsonl"), { warn: fail, ...more });

Deno.test("all that was emitted stands in the file when the log is closed, in order", () =>
  inFolder(async (logs) => {
    const log = open(logs);
    for (let i = 1; i <= 5000; i++) log.emit(step(i));
    log.emit({ kind: "warning", message: "日本 \n and more" });
    await log.close();
    const events = readEvents(join(logs, "events.jsonl"));
    assertEquals(
      events.slice(0, 5000).map((e) => e.kind === "step" && e.step),
      Array.from(Array(5000), (_, i) => i + 1),
    );
    assertEquals((events[5000] as { message: string }).message, "日本 \n and more");
    assertEquals([events.length, log.lost], [5001, 0]);
  }));

Deno.test("lines reach the file although the training thread never lets its event loop run", () =>
  inFolder(async (logs) => {
    const log = open(logs);
    const path = join(logs, "events.jsonl");
    await until("the thread writes", () => (log.emit(step(1)), Deno.statSync(path).size > 0));
    const before = Deno.statSync(path).size;
    log.emit(step(2));
    // From here on nothing but this loop: no timer, no message, no promise.
    for (const began = performance.now(); Deno.statSync(path).size <= before;) {
      if (performance.now() - began > 30_000) throw new Error("not within 30 s");
    }
    await log.close();
  }));

Deno.test("what matters is written at once, and takes with it what came before", () =>
  inFolder(async (logs) => {
    const log = open(logs);
    const path = join(logs, "events.jsonl");
    log.emit({ kind: "warning", message: "the thread is up" });
    await until("the first line", () => Deno.statSync(path).size > 0);
    // Not woken it would write when it next looks, 50 ms later; a busy machine may be as slow now and then, not always.
    let quickest = Infinity;
    for (let i = 1; quickest > 20 && i < 200; i++) {
      const before = Deno.statSync(path).size, began = performance.now();
      log.emit(step(i));
      log.emit({ kind: "warning", message: `number ${i}` });
      while (!Deno.readTextFileSync(path).slice(before).includes(`number ${i}`)) {
        if (performance.now() - began > 30_000) throw new Error("not within 30 s");
      }
      quickest = Math.min(quickest, performance.now() - began);
    }
    await log.close();
    assert(quickest <= 20, `it waits for its next look: ${Math.round(quickest)} ms at best`);
  }));

Deno.test("a flush comes back when everything is in the file", () =>
  inFolder(async (logs) => {
    const log = open(logs);
    const path = join(logs, "events.jsonl");
    log.emit({ kind: "warning", message: "the thread is up" });
    await until("the first line", () => Deno.statSync(path).size > 0);
    const newest = () => (readEvents(path).at(-1) as { step?: number }).step;
    let waited = 0;
    for (let last = 0; waited < 20 && last < 50_000;) {
      for (let i = 0; i < 50; i++) log.emit(step(++last));
      const began = performance.now();
      log.flush();
      if (performance.now() - began < 400) {
        assertEquals(newest(), last);
        waited++;
      } else { // the machine is busy: after half a second it gives up, and waits no more until all is written
        await until("the thread writes", () => newest() === last);
        log.flush();
      }
    }
    await log.close();
    assertEquals(waited, 20);
  }));

Deno.test("going back is done between the lines before it and those after", () =>
  inFolder(async (logs) => {
    const log = open(logs);
    for (let i = 1; i <= 6; i++) log.emit(step(i));
    log.rewind({ step: 4, epoch: 1 });
    log.emit({ ...step(5), loss: -5 } as Emitted);
    await log.close();
    const losses = readEvents(join(logs, "events.jsonl")).map((e) => e.kind === "step" ? e.loss : NaN);
    assertEquals(losses, [1, 1 / 2, 1 / 3, 1 / 4, -5]);
  }));

Deno.test("a full disk loses lines, says so rarely, and no emit throws", async () => {
  const warnings: string[] = [];
  const log = openTrack("/dev/full", { warn: (message) => warnings.push(message) });
  for (let i = 1; i <= 150; i++) log.emit(step(i));
  await log.close();
  assertEquals(log.lost, 150);
  assert(warnings.length >= 1 && warnings.length <= 3, warnings.join("\n"));
  assertSentence("core/run/writer/track: dev full could", warnings[0]);
});

Deno.test("a disk that hangs costs samples and no time, and a warning counts them", () =>
  inFolder(async (logs) => {
    // A pipe that nobody reads: its writer hangs after 64 KiB, as one does on a file server that is gone.
    Deno.mkdirSync(logs, { recursive: true });
    const pipe = join(logs, "pipe");
    new Deno.Command("mkfifo", { args: [pipe] }).outputSync();
    const reader = Deno.openSync(pipe, { read: true, write: true });
    const warnings: string[] = [];
    const log = open(logs, { room: 2 ** 16, warn: (message) => warnings.push(message) });
    log.emit({ kind: "warning", message: "the thread is up" });
    await until("the thread writes", () => Deno.statSync(join(logs, "events.jsonl")).size > 0);
    // The log's file becomes the pipe: the thread finds another file in its place, and opens that.
    Deno.renameSync(pipe, join(logs, "events.jsonl"));
    const times: number[] = [];
    const began = performance.now();
    for (let i = 1; i < 3000 || (log.lost === 0 && performance.now() - began < 30_000); i++) {
      const before = performance.now();
      log.emit(step(i));
      times.push(performance.now() - before);
      if (i % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    }
    assert(log.lost > 0, "what has no room is left out");
    const before = performance.now();
    for (let i = 0; i < 20; i++) log.flush();
    assert(performance.now() - before < 10_000, `20 flushes took ${performance.now() - before} ms`);
    assert(
      warnings.some((text) => text.includes("what came before is still being written")),
      warnings.join("\n"),
    );
    times.sort((a, b) => a - b);
    assert(
      times[Math.floor(times.length / 2)] < 0.5,
      `an emit took ${times[Math.floor(times.length / 2)]} ms`,
    );
    const path = join(logs, "events.jsonl");
    const disk = new Deno.Command("cat", { args: [path], stdout: "null" }).spawn(); // it is back
    await log.close();
    disk.kill();
    await disk.status;
    reader.close();
  }));

Deno.test("a log that is removed while it is written begins anew, with a warning", () =>
  inFolder(async (logs) => {
    const warnings: string[] = [];
    const log = open(logs, { warn: (message) => warnings.push(message) });
    log.emit(step(1));
    const path = join(logs, "events.jsonl");
    await until("the first line", () => Deno.statSync(path).size > 0);
    Deno.removeSync(logs, { recursive: true });
    let at = 1;
    await until("a new file", () => {
      log.emit(step(++at));
      return warnings.length > 0;
    });
    log.emit({ kind: "warning", message: "last" });
    await log.close();
    assertEquals(warnings.length, 1);
    assertStringIncludes(warnings[0], "was removed while the run writes it");
    assertEquals((readEvents(path).at(-1) as { message: string }).message, "last");
  }));

Deno.test("a folder that can't be written is refused before there is a thread", () =>
  inFolder((logs) => {
    Deno.mkdirSync(join(logs, ".."), { recursive: true });
    Deno.writeTextFileSync(logs, "a file where the folder should be");
    const error = assertThrows(() => open(logs), UserError, "--save-dir DIR");
    assertEquals(error.kind, "usage");
    return Promise.resolve();
  }));

Deno.test("machine metrics of every rank come into the first rank's log, each with its rank and step", () =>
  inFolder(async (logs) => {
    const system = (rank: number) => ({ rank, world: 2, interval: 0.05, logs, gpu: null });
    const mirrored: string[] = [];
    const log = open(logs, { system: system(0), mirror: (line) => mirrored.push(line) });
    const other = openRankTrack(system(1), fail);
    log.emit(step(3));
    other.emit(step(3));
    const heard = () => readEvents(join(logs, "events.jsonl")).filter((e) => e.kind === "system");
    await until(
      "both ranks",
      () => [0, 1].every((rank) => heard().some((e) => e.rank === rank && e.step === 3)),
    );
    await other.close();
    await log.close();
    const [one] = heard();
    assert(one.rss_bytes > 1e6 && one.host_memory_total_bytes! > one.rss_bytes, JSON.stringify(one));
    assert(mirrored.some((line) => JSON.parse(line).kind === "system"), "--json prints them too");
  }));

Deno.test("emitting a step takes microseconds", () =>
  inFolder(async (logs) => {
    const log = open(logs);
    const event = step(12345);
    // 10 us is the aim, of this thread's own time: a machine may be busy with something else all the while.
    let quickest = Infinity;
    for (let round = 0; round < 8; round++) {
      const { seconds } = measured(() => {
        for (let i = 0; i < 2000; i++) log.emit(event);
      });
      quickest = Math.min(quickest, seconds / 2000 * 1e6);
      await new Promise((resolve) => setTimeout(resolve, 60));
    }
    await log.close();
    assert(quickest < 25, `${quickest.toFixed(1)} us a step event`);
  }));
