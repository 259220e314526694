// A copy of the training state, of between two steps, which is written while training goes on. May import ffi, value.
import { currentStream, newEvent, recordEvent, synchroniseEvent } from "../../../ffi/cuda.ts";
import { borrowBytes, placeOf, uninitialised } from "../../../ffi/make.ts";
import { copy_ } from "../../../ffi/ops.ts";
import type { Place } from "../../../ffi/shared_memory.ts";
import { keep, type Tensor } from "../../../ffi/tensor.ts";
import { memoryStorage, type Storage, TensorData } from "../value.ts";

export interface Copy {
  readonly from: Place;
  readonly to: Place;
}

export interface Snapshot {
  /** Copies one tensor, or puts that off. What it gives holds until the tensor is copied again. */
  data(t: Tensor): TensorData;
  /** Those that were put off, once: to be made by the thread that writes. */
  takeCopies(): Copy[];
  /** The copies of tensors on a device are complete. */
  settle(): void;
  /** Where a storage of such a tensor is. */
  placeOf(storage: Storage): Place | undefined;
  /** The memory of all copies. */
  readonly places: readonly Place[];
}

/**
 * Memory for copies of these tensors is asked for now, and used by every snapshot. The tensors in `still` keep their
 * values for a while after a snapshot, and whoever changes them waits for the copies: where they are in this
 * process's memory, another thread copies them meanwhile. Those in `idle` change between saves alone: they are no copies'
 * originals, but what is written.
 */
export function openSnapshot(
  tensors: ReadonlySet<Tensor>,
  still: ReadonlySet<Tensor>,
  idle: ReadonlySet<Tensor> = new Set(),
): Snapshot {
  const twins = new Map<Tensor, { twin: Tensor; data: TensorData }>();
  const places = new Map<Storage, Place>();
  const later: Copy[] = [];
  const onDevice = [...tensors].some(({ device }) => device !== "cpu");
  for (const t of tensors) {
    const twin = idle.has(t)
      ? t
      : keep(uninitialised(t.shape, { dtype: t.dtype, pinned: t.device !== "cpu" }));
    const storage = memoryStorage(borrowBytes(twin));
    twins.set(t, { twin, data: new TensorData(t.dtype, [...t.shape], storage) });
    places.set(storage, placeOf(twin));
  }
  const copied = onDevice ? newEvent() : null;
  return {
    data(t) {
      const { twin, data } = twins.get(t)!;
      if (twin === t) return data;
      if (still.has(t) && t.device === "cpu" && t.contiguous) {
        later.push({ from: placeOf(t), to: places.get(data.storage)! });
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
