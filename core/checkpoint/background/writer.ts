// Snapshots the training state on the training thread, and has another thread write it.
import type { MemoryBlock } from "../../../ffi/libc.ts";
import { errorOf } from "../../base/failure.ts";
import type { SaveJob, WriteResult } from "./job.ts";
import type { SaveAnswer, SaveOrder } from "./thread.ts";
import { currentStream, newEvent, recordEvent, synchroniseEvent } from "../../../ffi/cuda.ts";
import { borrowBytes, memoryBlockOf, uninitialised } from "../../../ffi/make.ts";
import { copy_ } from "../../../ffi/ops.ts";
import { keep, type Tensor } from "../../../ffi/tensor.ts";
import { memoryStorage, type Storage, TensorData } from "../value.ts";

export interface Writer {
  /** Starts the thread, which takes some 50 ms that the first save would take otherwise. */
  ready(): void;
  /** Resolves when the checkpoint is in place. */
  write(job: SaveJob): Promise<WriteResult>;
  /** All is written, and the thread does something else until the process ends. Null where none was needed. */
  lend(module: URL): ((message: unknown) => void) | null;
  close(): void;
}

/** The thread faults this memory in before the first job. */
export function openWriter(memory: readonly MemoryBlock[]): Writer {
  let thread: Worker | null = null, lent = false;
  const start = () => {
    thread = new Worker(new URL("./thread.ts", import.meta.url), { type: "module", name: "checkpoints" });
    thread.postMessage({ prefault: memory } satisfies SaveOrder);
    return thread;
  };
  return {
    ready: () => void (thread ?? start()),
    write(job) {
      const writing = thread ?? start();
      writing.postMessage({ write: job } satisfies SaveOrder);
      return new Promise((resolve, reject) => {
        writing.onmessage = ({ data: answer }: MessageEvent<SaveAnswer>) =>
          "written" in answer ? resolve(answer.written) : reject(errorOf(answer.failure));
        writing.onerror = (event) => {
          event.preventDefault();
          reject(new Error(`internal: the thread that writes checkpoints ended: ${event.message}`));
        };
      });
    },
    lend({ href }) {
      if (thread === null) return null;
      const lender = thread;
      lent = true;
      return (message) => lender.postMessage({ take: message, by: href } satisfies SaveOrder);
    },
    close() {
      if (!lent) thread?.terminate();
    },
  };
}

// A copy of the training state between two steps, which is written while training goes on.

export interface Copy {
  readonly from: MemoryBlock;
  readonly to: MemoryBlock;
}

export interface Snapshot {
  /** Copies one tensor now or later. The data holds until the tensor is copied again. */
  data(t: Tensor): TensorData;
  /** Gives each deferred copy once, for the writing thread to make. */
  takeCopies(): Copy[];
  settle(): void;
  placeOf(storage: Storage): MemoryBlock | undefined;
  readonly places: readonly MemoryBlock[];
}

/**
 * The tensors in `unchanged` keep their values for a while after a snapshot, and whoever changes them waits for
 * the copies, which another thread makes. The tensors in `idle` change only between saves, and are written
 * without a copy.
 */
export function openSnapshot(
  tensors: ReadonlySet<Tensor>,
  unchanged: ReadonlySet<Tensor>,
  idle: ReadonlySet<Tensor> = new Set(),
): Snapshot {
  const twins = new Map<Tensor, { twin: Tensor; data: TensorData }>();
  const places = new Map<Storage, MemoryBlock>();
  const later: Copy[] = [];
  const onDevice = [...tensors].some(({ device }) => device !== "cpu");
  for (const t of tensors) {
    const twin = idle.has(t)
      ? t
      : keep(uninitialised(t.shape, { dtype: t.dtype, pinned: t.device !== "cpu" }));
    const storage = memoryStorage(borrowBytes(twin));
    twins.set(t, { twin, data: new TensorData(t.dtype, [...t.shape], storage) });
    places.set(storage, memoryBlockOf(twin));
  }
  const copied = onDevice ? newEvent() : null;
  return {
    data(t) {
      const { twin, data } = twins.get(t)!;
      if (twin === t) return data;
      if (unchanged.has(t) && t.device === "cpu" && t.contiguous) {
        later.push({ from: memoryBlockOf(t), to: places.get(data.storage)! });
      } else copy_(twin, t, true);
      return data;
    },
    takeCopies: () => later.splice(0),
    settle() {
      if (copied === null) return;
      recordEvent(copied, currentStream());
      synchroniseEvent(copied);
    },
    placeOf: (storage) => places.get(storage),
    places: [...places.values()],
  };
}
