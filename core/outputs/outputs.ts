// The outputs of a run beside events.jsonl: each is a folder here or an extension, with `sink.ts` for the writing thread. The
// training thread never waits for one.
import type { OpenOutput } from "../run/output.ts";
import type { Config } from "../settings/settings.ts";
import { trackedOutputs } from "./tracked.ts";
import { wandbOutput } from "./wandb/setup.ts";

export const OUTPUTS: OpenOutput[] = [wandbOutput];

/** With those that `--track` names, which are loaded for it. */
export const outputsOf = async ({ output }: Config): Promise<OpenOutput[]> => [
  ...OUTPUTS,
  ...await trackedOutputs(output.track),
];
