import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { plotsOf, renderScreen } from "../../../../core/outputs/watch/screen.ts";
import { terminalWidthOf } from "../../../../core/base/terminal_text.ts";
import { ASCII, COLOURED, PLAIN, viewOf } from "./views.ts";

const VIEWS = {
  big: viewOf({
    ranks: 64,
    gpus: true,
    exit: null,
    warnings: ["w".repeat(300), "学習率が高い", "x\x1b[2J"],
    attempts: 3,
  }),
  small: viewOf({ steps: 3, epochs: 3, name: "名前".repeat(35), host: "h".repeat(300) }),
  failed: viewOf({ exit: 6, ranks: 2 }),
  dead: viewOf({ exit: null }, 90_000),
};

Deno.test("the screen is exactly as large as it was asked to be, at any size and in any style", () => {
  const empty = {
    ...VIEWS.small,
    data: { ...VIEWS.small.data, run: null, curves: new Map(), begunAt: null, lastAt: null, lineage: null },
  };
  for (const view of [...Object.values(VIEWS), empty]) {
    for (
      const [width, height] of [[80, 24], [200, 60], [40, 10], [20, 5], [10, 3], [1, 1], [300, 100], [132, 7]]
    ) {
      for (const style of [PLAIN, COLOURED, ASCII]) {
        const lines = renderScreen(view, width, height, style);
        assertEquals(lines.length, height);
        for (const line of lines) {
          assertEquals(terminalWidthOf(line), width, `${width} x ${height}: ${JSON.stringify(line)}`);
        }
      }
    }
  }
});

Deno.test("it is a function of what it is given: the same view is the same screen", () => {
  assertEquals(renderScreen(VIEWS.big, 120, 40, COLOURED), renderScreen(VIEWS.big, 120, 40, COLOURED));
});

Deno.test("where ranks and GPUs are too many, the slowest are shown, and the rest is summed up", () => {
  const text = renderScreen(VIEWS.big, 100, 30, PLAIN).join("\n");
  assertMatch(text, /faster ones not shown/);
  assertMatch(text, /^ {2}62 .*◀ slowest by 31%/m);
  assertMatch(text, /^GPUs {2}64 ranks, \d+% busy \(41% to \d+%\), 1 throttled/m);
});

Deno.test("what must not be missed stands on the smallest screen: state, reason, warnings", () => {
  const dead = renderScreen(VIEWS.dead, 80, 24, PLAIN);
  assertMatch(dead[0], /● silent$/);
  assertStringIncludes(dead.join("\n"), "It seems dead: the last event is 1d 01h old");
  const failed = renderScreen(VIEWS.failed, 80, 24, PLAIN).join("\n");
  assertStringIncludes(failed, "Stopped on request (exit code 6)");
  const foot = (view: typeof VIEWS.big) => renderScreen(view, 80, 24, PLAIN).at(-1)!.trim();
  assertEquals([VIEWS.big, VIEWS.small, VIEWS.failed, VIEWS.dead].map(foot), [
    "q leaves; the run goes on",
    "q leaves; the run has ended",
    "q leaves; the run has ended",
    "q leaves",
  ]);
  const big = renderScreen(VIEWS.big, 80, 24, PLAIN).join("\n");
  assertStringIncludes(big, "Warnings");
  assert(!big.includes("\x1b"), "what a warning says can't move the cursor");
});

Deno.test("time left and the position are said where they are known", () => {
  const text = renderScreen(
    viewOf({ exit: null, steps: 500, epochs: 5, stepSeconds: 1, learningRate: 1e-3 }),
    120,
    30,
    PLAIN,
  )
    .join("\n");
  assertMatch(text, /100% +step 500\/500 +epoch 5\/5 +0 s left/);
  const view = viewOf({ exit: null, steps: 500, epochs: 5 });
  const unknown = { ...view, progress: { ...view.progress, steps: null, secondsLeft: null } };
  assertMatch(renderScreen(unknown, 120, 30, PLAIN)[3], /^step 500 {2}epoch 5\/5/);
});

Deno.test("plots come in their order, loss first, those without a value not at all", () => {
  const titles = plotsOf(VIEWS.failed.data).map(({ title }) => title);
  assertEquals(titles, [
    "Loss",
    "perplexity",
    "accuracy",
    "Learning rate",
    "Gradient norm",
    "Samples/s",
    "Memory",
  ]);
});

Deno.test("at 80 columns the learning rate stands beside both losses, and the parts of the time that fit", () => {
  const view = viewOf({ ranks: 4, exit: null, steps: 30_000, stepSeconds: 0.5, learningRate: 2.5e-7 });
  const tiny = { ...view.data, best: { loss: 1.234e-9, step: 123_456, epoch: 100 } };
  for (const data of [view.data, tiny]) {
    const text = renderScreen({ ...view, data }, 80, 24, PLAIN).join("\n");
    assertMatch(text, /^loss \S+ │ val loss \S+ .*│ LR \S+/m);
    assertMatch(text, /^Time: compute \d\d\.\d%, communication 10\.0%, [\w .%,]+$/m);
  }
  assertMatch(renderScreen(view, 80, 24, PLAIN).join("\n"), /\(best \S+ at step 30000\)/);
});
