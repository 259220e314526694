// How much of a training run is waiting for data: the run's own figures. May import track's types.
import { join } from "@std/path";
import type { Event, StepEvent } from "../core/track/event_types.ts";

export interface Wait {
  readonly steps: number;
  readonly millisecondsPerStep: number;
  /** Of the time from the first step's end to the last one's. */
  readonly share: number;
}

/** simple-convnet on packed images, with these settings besides. */
export function measureWait(
  program: readonly string[],
  images: string,
  steps: number,
  flags: string[],
): Wait {
  const saveDir = Deno.makeTempDirSync();
  const args = [
    ["train", "--model", "simple-convnet", "--data-type", "packed", "--data-path", images, "--device", "cpu"],
    [
      "--batch-size",
      "64",
      "--epochs",
      "100",
      "--max-steps",
      `${steps}`,
      "--log-interval",
      "1",
      "--val-samples",
      "0",
    ],
    [
      "--normalise",
      "imagenet",
      "--run-name",
      "wait",
      "--save-dir",
      saveDir,
      "--no-wandb",
      "--quiet",
      ...flags,
    ],
  ].flat();
  try {
    const { success, stderr } = new Deno.Command(program[0], { args: [...program.slice(1), ...args] })
      .outputSync();
    if (!success) {
      throw new Error(`the training run failed: ${new TextDecoder().decode(stderr).slice(-2000)}`);
    }
    return waitIn(Deno.readTextFileSync(join(saveDir, "logs", "wait", "events.jsonl")));
  } finally {
    Deno.removeSync(saveDir, { recursive: true });
  }
}

/** From the lines of events.jsonl. The first step's wait is the start's: its data could not be asked for before. */
export function waitIn(lines: string): Wait {
  const events: Event[] = lines.trim().split("\n").map((line) => JSON.parse(line));
  const steps = events.filter((event): event is StepEvent & { t: number } => event.kind === "step");
  if (steps.length < 2) throw new Error(`a run of ${steps.length} steps says nothing about waiting`);
  const seconds = steps.at(-1)!.t - steps[0].t;
  const waited = steps.slice(1).reduce((sum, step) => sum + step.data_s!, 0);
  return {
    steps: steps.length,
    millisecondsPerStep: 1000 * seconds / (steps.length - 1),
    share: waited / seconds,
  };
}
