// The training thread's end of the upload while training. May import grows (types), online_thread (types).
import type { GrowingRun } from "./grows.ts";
import type { FromThread, ToThread } from "./online_thread.ts";

export interface Online {
  /** After the run's last record was written: waits until all is uploaded, but no longer than this. */
  end(limitMs: number): Promise<"synced" | "open" | null>;
}

/** Returns at once; `warn` is called when the thread that trains has time to listen. */
export function startOnline(run: GrowingRun, warn: (sentence: string) => void): Online {
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
      const late = new Promise<"open">((resolve) =>
        timer = setTimeout(() => resolve("open"), limitMs + 1000)
      );
      try {
        return await Promise.race([state, late]);
      } finally {
        clearTimeout(timer);
        thread.terminate();
      }
    },
  };
}
