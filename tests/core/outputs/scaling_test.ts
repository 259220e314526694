import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../core/base/errors.ts";
import { encodeEvent } from "../../../core/run/events.ts";
import type { Emitted } from "../../../core/run/event_log.ts";
import { doubts, runSpeedOf, scaling } from "../../../commands/run/bench.ts";

const begin = (ranks: number): Emitted => ({
  kind: "run",
  run: `on-${ranks}`,
  version: "0",
  command: [],
  model: "mlp",
  parameters: 1,
  world_size: ranks,
  device: "cpu",
  libtorch: "2.15.0",
  host: "h",
  pid: 1,
});
const epoch = (number: number, rate: number): Emitted => ({
  kind: "epoch",
  step: number,
  epoch: number,
  loss: 1,
  metrics: {},
  lr: 1,
  samples_per_s: rate,
  seconds: 1,
});
const times = (communication: number): Emitted => ({
  kind: "times",
  step: 1,
  steps: 1,
  seconds: 20,
  data_s: 1,
  copy_s: 0,
  compute_s: 8 - communication,
  communication_s: communication,
  optimizer_s: 1,
  save_s: 5,
  evaluation_s: 5,
  rest_s: 0,
  samples_per_s: 1,
});

function recorded<T>(events: Emitted[], use: (folder: string) => T): T {
  const folder = Deno.makeTempDirSync();
  try {
    Deno.writeTextFileSync(
      join(folder, "events.jsonl"),
      events.map((event, t) => encodeEvent(event, t) + "\n").join(""),
    );
    return use(folder);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

Deno.test("a run's speed is that of its epochs but the first, with what it waited for", () => {
  const events = [begin(4), epoch(1, 10), epoch(2, 100), times(2), epoch(3, 110), epoch(4, 120)];
  recorded(events, (folder) => {
    const speed = runSpeedOf(folder);
    assertEquals([speed.run, speed.ranks, speed.samplesPerSecond], ["on-4", 4, 110]);
    assertAlmostEquals(speed.communication!, 0.2);
    assertAlmostEquals(speed.loader!, 0.1);
  });
});

Deno.test("of a run that was resumed on other ranks its last attempt counts, and one epoch is enough with steps", () => {
  const step = (number: number, rate: number): Emitted => ({
    kind: "step",
    step: number,
    epoch: 1,
    loss: 1,
    lr: 1,
    samples_per_s: rate,
  });
  const events = [
    begin(1),
    epoch(1, 900),
    epoch(2, 900),
    begin(2),
    step(1, 5),
    step(2, 7),
    step(3, 50),
    step(4, 70),
  ];
  recorded(
    events,
    (folder) => assertEquals([runSpeedOf(folder).ranks, runSpeedOf(folder).samplesPerSecond], [2, 60]),
  );
});

Deno.test("a run that never said how fast it was is refused with what to do", () => {
  recorded([begin(1)], (folder) => assertThrows(() => runSpeedOf(folder), UserError, "--log-interval 10"));
  recorded([], (folder) => assertThrows(() => runSpeedOf(folder), UserError, "--log-interval 10"));
});

Deno.test("efficiency is speed over that of the fewest ranks, over the ratio of ranks", () => {
  const speed = (ranks: number, samplesPerSecond: number, model = "mlp") => ({
    run: `${ranks}`,
    ranks,
    device: "cuda",
    model,
    samplesPerSecond,
    communication: null,
    loader: null,
  });
  const rows = scaling([speed(8, 700), speed(2, 200), speed(4, 390)]);
  assertEquals(rows.map(({ ranks }) => ranks), [2, 4, 8]);
  assertEquals(rows.map(({ speedUp, ideal }) => [speedUp, ideal]), [[1, 1], [1.95, 2], [3.5, 4]]);
  assertEquals(rows.map(({ efficiency }) => efficiency), [1, 0.975, 0.875]);
  assertEquals(doubts(rows), null);
  assert(doubts([...rows, speed(1, 1, "gpt")])!.includes("differ in model"));
});
