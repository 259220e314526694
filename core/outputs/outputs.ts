// The outputs of a training run beside events.jsonl. Another one is a folder here, with `sink.ts` for the writing
// thread, and a line in this list.
import type { OpenOutput } from "../run/output.ts";
import { wandbOutput } from "./wandb/setup.ts";

export const OUTPUTS: OpenOutput[] = [wandbOutput];
