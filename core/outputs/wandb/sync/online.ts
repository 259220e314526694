import type { GrowingRun } from "./upload.ts";
import type { FromThread, ToThread } from "./online_thread.ts";

export interface OnlineUpload {
  /** Call it after the run's last record. It waits at most `limitMs` for the upload. */
  end(limitMs: number): Promise<"synced" | "open" | null>;
}

/** Returns at once; `warn` runs on the training thread's event loop. */
export function startOnlineUpload(run: GrowingRun, warn: (sentence: string) => void): OnlineUpload {
  const thread = new Worker(new URL("./online_thread.ts", import.meta.url), {
    type: "module",
    name: "upload",
  });
  const send = (message: ToThread) => thread.postMessage(message);
  const state = new Promise<"synced" | "open" | null>((resolve) => {
    thread.onmessage = ({ data }: MessageEvent<FromThread>) => {
      if ("warning" in data) warn(data.warning);
      else resolve(data.state);
    };
    thread.onerror = (event) => {
      event.preventDefault(); // training goes on
      warn(`The upload to W&B has ended (${event.message}). Later: hpctrain sync-wandb`);
      resolve(null);
    };
  });
  send({ run });
  return {
    async end(limitMs) {
      send({ ended: limitMs });
      let timer = 0;
      const overdue = new Promise<"open">((resolve) =>
        timer = setTimeout(() => resolve("open"), limitMs + 1000)
      );
      try {
        return await Promise.race([state, overdue]);
      } finally {
        clearTimeout(timer);
        thread.terminate();
      }
    },
  };
}
