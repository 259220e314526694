// Has checkpoints written by a thread of this process, one at a time. May import its siblings.
import type { Place } from "../../../ffi/shared_memory.ts";
import { errorOf } from "./failure.ts";
import type { Job, Written } from "./job.ts";
import type { Answer, Order } from "./thread.ts";

export interface Writer {
  /** Starts the thread, which holds this one for as long as it takes, some 50 ms. Else the first save does. */
  ready(): void;
  /** Comes to its end when the checkpoint is in place, or with the reason why it is not. */
  write(job: Job): Promise<Written>;
  close(): void;
}

/** `memory` is where jobs' storages will be: the thread has it ready before the first of them. */
export function openWriter(memory: readonly Place[]): Writer {
  let thread: Worker | null = null;
  const start = () => {
    thread = new Worker(new URL("./thread.ts", import.meta.url), { type: "module", name: "checkpoints" });
    thread.postMessage({ prefault: memory } satisfies Order);
    return thread;
  };
  return {
    ready: () => void (thread ?? start()),
    write(job) {
      const writing = thread ?? start();
      writing.postMessage({ write: job } satisfies Order);
      return new Promise((resolve, reject) => {
        writing.onmessage = ({ data: answer }: MessageEvent<Answer>) =>
          "written" in answer ? resolve(answer.written) : reject(errorOf(answer.failure));
        writing.onerror = (event) => {
          event.preventDefault();
          reject(new Error(`internal: the thread that writes checkpoints ended: ${event.message}`));
        };
      });
    },
    close: () => thread?.terminate(),
  };
}
