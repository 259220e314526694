// Rows of made-up runs, for tests of the table.
import type { RunRow } from "../../../../core/outputs/runs/row.ts";

type Made = Partial<Omit<RunRow, "settings">> & { settings?: Record<string, string> };

export function madeRow({ settings = {}, ...more }: Made = {}): RunRow {
  return {
    run: "made",
    folder: `logs/${more.run ?? "made"}`,
    state: "done",
    why: "Finished",
    failure: null,
    problem: null,
    model: "gpt",
    ranks: 1,
    best: 0.5,
    metric: "val_loss",
    bestStep: 90,
    bestEpoch: 9,
    metrics: { accuracy: 0.9 },
    step: 100,
    steps: 100,
    epoch: 10,
    epochs: 10,
    seconds: 60,
    secondsLeft: null,
    goodput: 90,
    attempts: 1,
    started: 1_790_000_000,
    seen: 1_790_000_060,
    settings: new Map(Object.entries(settings)),
    ...more,
  };
}
