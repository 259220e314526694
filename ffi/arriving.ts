// Values on their way from the device to the host. May import cuda, make, tensor.
import { currentStream, destroyEvent, newEvent, recordEvent, synchroniseEvent } from "./cuda.ts";
import { toDevice } from "./make.ts";
import { keep, type Tensor } from "./tensor.ts";

export interface Arriving {
  /** Waits for the values alone, not for what was queued behind them, and frees them after `read`. Once. */
  take<R>(read: (host: Tensor) => R): R;
}

/**
 * Starts the copy, and owns `t` from here on. Asking `t` itself later, by item(), would wait for everything that
 * the device has been given in between: the copy of a value queues where the work does.
 */
export function arriving(t: Tensor): Arriving {
  if (t.device === "cpu") return { take: (read) => readAndFree(t, read) };
  const host = keep(toDevice(t, "cpu", true)); // into pinned memory, as libtorch copies without waiting
  const there = newEvent();
  recordEvent(there, currentStream());
  t.free();
  return {
    take(read) {
      synchroniseEvent(there);
      destroyEvent(there);
      return readAndFree(host, read);
    },
  };
}

function readAndFree<R>(host: Tensor, read: (host: Tensor) => R): R {
  try {
    return read(host);
  } finally {
    host.free();
  }
}
