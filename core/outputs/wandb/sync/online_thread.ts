// The upload thread of --wandb-online (a Worker's entry).
import { type GrowingRun, uploadWhileTraining } from "./upload.ts";
import type { ThreadScope } from "../../../base/threads.ts";

declare const self: ThreadScope;

export type ToThread = { run: GrowingRun } | { ended: number };
export type FromThread = { warning: string } | { state: "synced" | "open" | null };

const ended = new AbortController(), giveUp = new AbortController();
const tell = (message: FromThread) => self.postMessage(message);

self.onmessage = async ({ data }: MessageEvent<ToThread>) => {
  if ("ended" in data) {
    ended.abort();
    setTimeout(() => giveUp.abort(), data.ended);
    return;
  }
  const state = await uploadWhileTraining(data.run, {
    env: Deno.env.toObject(),
    ended: ended.signal,
    giveUp: giveUp.signal,
    warn: (warning) => tell({ warning }),
  });
  tell({ state });
  self.close();
};
