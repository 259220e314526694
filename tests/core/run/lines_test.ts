import { assertEquals } from "@std/assert";
import { startLine } from "../../../core/run/console.ts";
import { epochLine, stepLine } from "../../../core/run/live_line.ts";
import { masterLine, runSummaryLines } from "../../../core/train/summary.ts";
import { assertSentence } from "../../sentences.ts";

Deno.test("the first lines name what the run stands on", () => {
  assertEquals(startLine({ ranks: 16, device: "cuda" }), "Starting distributed training on 16 GPUs");
  assertEquals(startLine({ ranks: 1, device: "cuda" }), "Starting distributed training on 1 GPU");
  assertEquals(startLine({ ranks: 4, device: "cpu" }), "Starting distributed training on 4 CPU ranks");
  assertEquals(startLine({ ranks: 1, device: "cpu" }), "Starting distributed training on 1 CPU");
  assertEquals(masterLine("node001"), "Master node: node001");
});

const full = {
  epoch: 1,
  epochs: 10,
  loss: 0.6923,
  score: 0.5123,
  valLoss: 0.6801,
  valScore: 0.5301,
  learningRate: 3e-4,
  samplesPerSecond: 1234,
  memoryBytes: 2.1 * 2 ** 30,
};

Deno.test("a full epoch line is the documented one, character for character", () => {
  assertEquals(
    epochLine({ ...full, task: "classification" }),
    "[Epoch 1/10] Loss: 0.6923 | Acc: 0.5123 | Val Loss: 0.6801 | Val Acc: 0.5301 | LR: 3.0e-4 | 1234 samples/s | 2.1 GiB",
  );
});

Deno.test("epochLine of a regression shows R2 in place of accuracy", () => {
  assertEquals(
    epochLine({ ...full, task: "regression" }),
    "[Epoch 1/10] Loss: 0.6923 | R2: 0.5123 | Val Loss: 0.6801 | Val R2: 0.5301 | LR: 3.0e-4 | 1234 samples/s | 2.1 GiB",
  );
});

Deno.test("of several numbers the one that is predicted worst is named, behind the validation's R2 where there is one", () => {
  const worst = { name: "omega_b", r2: -561.9 };
  assertEquals(
    epochLine({ ...full, task: "regression", worst }),
    "[Epoch 1/10] Loss: 0.6923 | R2: 0.5123 | Val Loss: 0.6801 | Val R2: 0.5301 (worst omega_b: -561.9000) | " +
      "LR: 3.0e-4 | 1234 samples/s | 2.1 GiB",
  );
  assertEquals(
    epochLine({ epoch: 1, epochs: 1, task: "regression", loss: 1, score: 0.5, worst, learningRate: 0.01 }),
    "[Epoch 1/1] Loss: 1.0000 | R2: 0.5000 (worst omega_b: -561.9000) | LR: 1.0e-2",
  );
});

Deno.test("a language model shows one perplexity: the validation's, or else the training's", () => {
  const base = { epoch: 2, epochs: 3, task: "language", loss: 2, score: 7.389, learningRate: 1e-3 } as const;
  assertEquals(
    epochLine({ ...base, valLoss: 2.1, valScore: 8.166 }),
    "[Epoch 2/3] Loss: 2.0000 | Val Loss: 2.1000 | Perplexity: 8.1660 | LR: 1.0e-3",
  );
  assertEquals(epochLine(base), "[Epoch 2/3] Loss: 2.0000 | Perplexity: 7.3890 | LR: 1.0e-3");
});

Deno.test("parts without a value are left out of the epoch line", () => {
  assertEquals(
    epochLine({
      epoch: 1,
      epochs: 1,
      task: "regression",
      loss: NaN,
      learningRate: 0.01,
      samplesPerSecond: null,
    }),
    "[Epoch 1/1] Loss: nan | LR: 1.0e-2",
  );
});

Deno.test("the plain step line says where the run stands", () => {
  assertEquals(
    stepLine({
      epoch: 3,
      epochs: 10,
      step: 120,
      steps: 500,
      loss: 0.4321,
      learningRate: 3e-4,
      samplesPerSecond: 1234,
      secondsLeft: 75,
      memoryBytes: 2 ** 30,
    }),
    "[Epoch 3/10] Step 120/500 | Loss: 0.4321 | LR: 3.0e-4 | 1234 samples/s | 1m 15s left | 1.0 GiB",
  );
  assertEquals(
    stepLine({ epoch: 3, epochs: 10, step: 2, steps: 4, phase: "evaluating", secondsLeft: null }),
    "[Epoch 3/10] evaluating 2/4",
  );
});

Deno.test("the summary tells what happened, where the files are and what to run next", () => {
  const summary = {
    outcome: "Finished",
    epochs: 8,
    steps: 504,
    seconds: 102,
    best: { epoch: 7, valLoss: 0.0312 },
    files: [["best model", "checkpoints/a_best.pt"], ["events", "logs/a/events.jsonl"]],
    next: [["look inside", "hpctrain inspect checkpoints/a_best.pt"]],
  } as const;
  assertEquals(runSummaryLines(summary), [
    "Finished after 1m 42s: 8 epochs, 504 steps. Best Val Loss: 0.0312 at epoch 7.",
    "Made:",
    "  best model  checkpoints/a_best.pt",
    "  events      logs/a/events.jsonl",
    "Next:",
    "  look inside  hpctrain inspect checkpoints/a_best.pt",
  ]);
  const losses = { epoch: { epoch: 8, loss: 0.0969 }, step: { step: 504, loss: 0.1295 } };
  assertSentence("core/run/lines: training loss mean", runSummaryLines({ ...summary, losses })[1]);
  const line = (graphs: number) => runSummaryLines({ ...summary, memory: { used: 3 * 2 ** 30, graphs } })[1];
  assertEquals(line(0), "GPU memory in use at the end: 3.0 GiB");
  assertSentence("core/run/lines: gpu memory use", line(2 ** 30));
  assertEquals(
    runSummaryLines({
      ...summary,
      outcome: "Stopped on request",
      epochs: 1,
      best: undefined,
      files: [],
      next: [],
    }),
    ["Stopped on request after 1m 42s: 1 epoch, 504 steps."],
  );
});
