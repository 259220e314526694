import { assert, assertEquals, assertMatch } from "@std/assert";
import { terminalWidthOf } from "../../../core/base/terminal_text.ts";
import { Curve } from "../../../core/run/curve.ts";
import {
  openProgressLine,
  renderProgressLine,
  sparkline,
  type StepState,
} from "../../../core/run/live_line.ts";

const PLAIN = { colour: false, unicode: true }, COLOURED = { colour: true, unicode: true };

const drawn = (state: StepState, width: number, valLoss?: number, curve: Curve | null = null) =>
  renderProgressLine({ state, valLoss, curve }, width, PLAIN);

function curveOf(...values: number[]): Curve {
  const curve = new Curve(24);
  values.forEach((value, i) => curve.add(i + 1, value));
  return curve;
}

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
    drawn(state, 120),
    "Epoch 3/10 120/480 [======>                 ] | Loss: 0.4321 | 1234 samples/s | 1m 15s left | 2.1 GiB",
  );
});

Deno.test("narrow terminals lose the bar first, then memory, speed and time", () => {
  assertEquals(
    drawn(state, 80),
    "Epoch 3/10 120/480 | Loss: 0.4321 | 1234 samples/s | 1m 15s left | 2.1 GiB",
  );
  assertEquals(
    drawn(state, 70),
    "Epoch 3/10 120/480 | Loss: 0.4321 | 1234 samples/s | 1m 15s left",
  );
  assertEquals(drawn(state, 60), "Epoch 3/10 120/480 | Loss: 0.4321 | 1m 15s left");
  assertEquals(drawn(state, 40), "Epoch 3/10 120/480 | Loss: 0.4321");
  assertEquals(drawn(state, 20), "Epoch 3/10 120/480");
  assertEquals(drawn(state, 10), "Epoch 3/1");
});

Deno.test("at 80 columns the live line has loss, validation loss, learning rate and the time left; wider ones the curve", () => {
  const full = { ...state, learningRate: 3e-4 }, curve = curveOf(9, 5, 3, 2, 1.5, 1.2, 1.1, 1);
  assertEquals(
    drawn(full, 80, 0.4512, curve),
    "Epoch 3/10 120/480 | Loss: 0.4321 | Val Loss: 0.4512 | LR: 3.0e-4 | 1m 15s left",
  );
  assertEquals(
    drawn(full, 120, 0.4512, curve),
    "Epoch 3/10 120/480 | Loss: 0.4321 ⣷⣄⣀⣀ | Val Loss: 0.4512 | LR: 3.0e-4 | 1234 samples/s | 1m 15s left | 2.1 GiB",
  );
  assertMatch(
    drawn(full, 160, 0.4512, curve),
    /^Epoch 3\/10 120\/480 \[=+> +\] \| Loss: 0\.4321 ⣷⣄⣀⣀ \| Val Loss/,
  );
  const ascii = renderProgressLine({ state: full, curve }, 160, { colour: true, unicode: false });
  assert(
    /^[\x20-\x7e]*$/.test(ascii.replaceAll("\x1b", "")) && ascii.includes("\x1b[36mLoss: 0.4321\x1b[0m"),
    ascii,
  );
});

Deno.test("the curve has at most twelve characters of one column, however long the run is", () => {
  const long = new Curve(24);
  for (let i = 1; i <= 10_000; i++) long.add(i, 1 / i);
  assertEquals(sparkline(curveOf(1000, 100, 10, 1)), "⣷⣄"); // to a logarithmic scale
  for (const curve of [long, curveOf(1, 1, 1), curveOf(NaN, NaN), curveOf(NaN, 1, Infinity, 2)]) {
    assertMatch(sparkline(curve), /^[\u2800-\u28ff]{1,12}$/);
  }
});

Deno.test("no state and no width makes a line that reaches the last column, in any style", () => {
  const states = [
    state,
    { ...state, step: 480 },
    { ...state, step: 999, loss: NaN, secondsLeft: null, samplesPerSecond: null },
    { epoch: 1, epochs: 1, step: 0, steps: 0, phase: "évaluating…" },
    { ...state, loss: 1e300, secondsLeft: 1e12, samplesPerSecond: 1e12 },
  ];
  for (const each of states) {
    for (let width = 0; width <= 200; width++) {
      for (const style of [PLAIN, COLOURED, { colour: false, unicode: false }]) {
        const shown = { state: each, valLoss: 1 / 3, curve: curveOf(3, 2, 1, NaN) };
        const line = renderProgressLine(shown, width, style), columns = terminalWidthOf(line);
        assert(columns <= Math.max(0, width - 1), `${columns} columns at width ${width}`);
        if (!style.unicode) assert(/^[\x20-\x7e]*$/.test(line), line);
      }
    }
  }
});

Deno.test("the bar is full only at the end of the epoch and has one length", () => {
  const bars = [0, 1, 240, 479, 480].map((step) => /\[.*\]/.exec(drawn({ ...state, step }, 200))![0]);
  assertEquals(bars.map((bar) => bar.length), [26, 26, 26, 26, 26]);
  assertEquals(bars.map((bar) => bar.includes(">")), [true, true, true, true, false]);
});

Deno.test("the driver redraws at most ten times a second and takes the line away before other text", () => {
  const written: string[] = [];
  let time = 0;
  const progress = openProgressLine({
    write: (text) => written.push(text),
    columns: () => 80,
    style: PLAIN,
    now: () => time,
  });
  for (; time < 1000; time += 10) progress.update(state);
  assertEquals(written.length, 10);
  assertEquals(written[0], "\r\x1b[2K" + drawn(state, 80));
  progress.clear();
  progress.clear();
  assertEquals(written.length, 11);
  assertEquals(written[10], "\r\x1b[2K");
  progress.update(state);
  assertEquals(written.length, 12, "after other text the line comes back at once");
});
