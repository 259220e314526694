import { assert, assertEquals } from "@std/assert";
import { openProgressLine, renderProgressLine } from "../../../core/run/console.ts";

const state = {
  epoch: 3,
  epochs: 10,
  step: 120,
  steps: 480,
  loss: 0.4321,
  samplesPerSecond: 1234,
  secondsLeft: 75,
  memoryBytes: 2.1 * 2 ** 30,
};

Deno.test("a wide terminal gets everything, with a bar a quarter full", () => {
  assertEquals(
    renderProgressLine(state, 120),
    "Epoch 3/10 120/480 [======>                 ] | Loss: 0.4321 | 1234 samples/s | 1m 15s left | 2.1 GiB",
  );
});

Deno.test("narrow terminals lose the bar first, then memory, speed and time", () => {
  assertEquals(
    renderProgressLine(state, 80),
    "Epoch 3/10 120/480 | Loss: 0.4321 | 1234 samples/s | 1m 15s left | 2.1 GiB",
  );
  assertEquals(
    renderProgressLine(state, 70),
    "Epoch 3/10 120/480 | Loss: 0.4321 | 1234 samples/s | 1m 15s left",
  );
  assertEquals(renderProgressLine(state, 60), "Epoch 3/10 120/480 | Loss: 0.4321 | 1m 15s left");
  assertEquals(renderProgressLine(state, 40), "Epoch 3/10 120/480 | Loss: 0.4321");
  assertEquals(renderProgressLine(state, 20), "Epoch 3/10 120/480");
  assertEquals(renderProgressLine(state, 10), "Epoch 3/1");
});

Deno.test("no state and no width makes a line that reaches the last column or leaves ASCII", () => {
  const states = [
    state,
    { ...state, step: 480 },
    { ...state, step: 999, loss: NaN, secondsLeft: null, samplesPerSecond: null },
    { epoch: 1, epochs: 1, step: 0, steps: 0, phase: "évaluating…" },
    { ...state, loss: 1e300, secondsLeft: 1e12, samplesPerSecond: 1e12 },
  ];
  for (const each of states) {
    for (let width = 0; width <= 200; width++) {
      const line = renderProgressLine(each, width);
      assert(line.length <= Math.max(0, width - 1), `${line.length} columns at width ${width}`);
      assert(/^[\x20-\x7e]*$/.test(line), line);
    }
  }
});

Deno.test("the bar is full only at the end of the epoch and has one length", () => {
  const bars = [0, 1, 240, 479, 480].map((step) =>
    /\[.*\]/.exec(renderProgressLine({ ...state, step }, 200))![0]
  );
  assertEquals(bars.map((bar) => bar.length), [26, 26, 26, 26, 26]);
  assertEquals(bars.map((bar) => bar.includes(">")), [true, true, true, true, false]);
});

Deno.test("the driver redraws at most ten times a second and takes the line away before other text", () => {
  const written: string[] = [];
  let time = 0;
  const progress = openProgressLine({
    write: (text) => written.push(text),
    columns: () => 80,
    now: () => time,
  });
  for (; time < 1000; time += 10) progress.update(state);
  assertEquals(written.length, 10);
  assertEquals(written[0], "\r\x1b[2K" + renderProgressLine(state, 80));
  progress.clear();
  progress.clear();
  assertEquals(written.length, 11);
  assertEquals(written[10], "\r\x1b[2K");
  progress.update(state);
  assertEquals(written.length, 12, "after other text the line comes back at once");
});
