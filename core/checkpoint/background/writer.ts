// Has checkpoints written by a thread of this process, one at a time. May import its siblings.
import type { Place } from "../../../ffi/shared_memory.ts";
import { errorOf } from "./failure.ts";
import type { Job, Written } from "./job.ts";
import type { Answer, Order } from "./thread.ts";

export interface Writer {
  /** Comes to its end when the checkpoint is in place, or with the reason why it is not. */
  write(job: Job): Promise<Written>;
  close(): void;
}

/** `memory` is where jobs' storages will be: the thread has it ready before the first of them. */
export function openWriter(memory: readonly Place[]): Writer {
  const thread = new Worker(new URL("./thread.ts", import.meta.url), { type: "module", name: "checkpoints" });
  const order = (order: Order) => thread.postMessage(order);
  order({ prefault: memory });
  return {
    write(job) {
      order({ write: job });
      return new Promise((resolve, reject) => {
        thread.onmessage = ({ data: answer }: MessageEvent<Answer>) =>
          "written" in answer ? resolve(answer.written) : reject(errorOf(answer.failure));
        thread.onerror = (event) => {
          event.preventDefault();
          reject(new Error(`internal: the thread that writes checkpoints ended: ${event.message}`));
        };
      });
    },
    close: () => thread.terminate(),
  };
}
