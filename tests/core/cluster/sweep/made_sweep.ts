// A made-up sweep of thirty runs, and its page. Test helper.
import { sweepPage } from "../../../../core/cluster/sweep/page.ts";
import type { Sweep, SweepRow } from "../../../../core/cluster/sweep/runs.ts";
import { parseSearchFile } from "../../../../core/cluster/sweep/space.ts";
import { uniform } from "../../../../core/base/random.ts";

export const noise = uniform(5n);
const { space } = parseSearchFile(
  "space: {lr: {log: [1e-5, 1e-1]}, layers: {int: [1, 6]}, optimizer: {choice: [adamw, sgd]}}",
  "f",
);
export const SWEEP: Sweep = {
  ...{ format: 1, version: "0", name: "s", command: [], saveDir: ".", metric: "val_loss", runs: [] },
  goal: "minimize",
  search: { kind: "random", space, maxRuns: 40, seed: 0, rungs: null },
};

export const ROWS = Array.from({ length: 30 }, (_, i): SweepRow => {
  const exponent = -5 + 4 * noise(i), state = i === 7 ? "failed" : i % 9 === 4 ? "pruned" : "done";
  return {
    run: `s-${String(i).padStart(3, "0")}`,
    values: {
      lr: (10 ** exponent).toExponential(3),
      layers: String(1 + i % 6),
      optimizer: i % 2 ? "sgd" : "adamw",
    },
    state,
    step: 100 * i,
    steps: null,
    metric: state === "failed" ? null : 0.2 + (exponent + 3) ** 2 + noise(100 + i) / 10,
    epoch: 3,
    folder: "",
    why: state === "failed" ? "The loss is NaN at step 3 <in layer 1>" : "",
  };
});

export const pageOf = (sweep: Sweep, rows: readonly SweepRow[]) =>
  sweepPage({
    sweep,
    goal: sweep.goal ?? "minimize",
    rows,
    wordsOf: (run) => ["--model=mlp", `--set=it's=${run} \$(x)`],
    weights: "checkpoints/best.pt",
    seconds: 90,
    now: 0,
  });
