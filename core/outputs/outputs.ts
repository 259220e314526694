// The outputs of a run beside events.jsonl: each is a folder here, with `sink.ts` for the writing thread. The training thread
// never waits for one.
import type { OpenOutput } from "../run/output.ts";
import { trackedOutputs } from "./tracked.ts";
import { wandbOutput } from "./wandb/setup.ts";

export const OUTPUTS: OpenOutput[] = [wandbOutput, ...trackedOutputs];
