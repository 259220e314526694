// Starts the thread that watches NCCL, and tells it what to do. May import desk, watch (types).
import { openDesk, QUEUED, TOLD } from "./desk.ts";
import type { Orders } from "./watch.ts";

export interface Watcher {
  /** STOP or ABORT. */
  tell(what: number): void;
  /** When it has done what it was told, or NCCL failed. */
  readonly ended: Promise<unknown>;
  end(): void;
}

export function openWatcher({ nccl, cudart, device, comm, desk, flight }: Orders): Watcher {
  const thread = new Worker(new URL("./watch.ts", import.meta.url), { type: "module", name: "nccl" });
  const { words } = openDesk(desk);
  const ended = new Promise<unknown>((resolve) => {
    thread.onmessage = resolve;
    thread.onerror = (event) => {
      event.preventDefault();
      console.error(`hpctrain: internal: the thread that watches NCCL ended: ${event.message}`);
      resolve(null);
    };
  });
  thread.postMessage({ nccl, cudart, device, comm, desk, flight } satisfies Orders);
  return {
    tell(what) {
      Atomics.store(words, TOLD, what);
      for (const word of [TOLD, QUEUED]) Atomics.notify(words, word);
    },
    ended,
    end: () => thread.terminate(),
  };
}
