// Values that come from a device while the host goes on: page-locked memory, and an event behind the copy.
import { currentStream, destroyEvent, type Event, newEvent, recordEvent, synchroniseEvent } from "./cuda.ts";
import { uninitialised } from "./make.ts";
import { copy_ } from "./ops.ts";
import { keep, type Tensor } from "./tensor.ts";

export interface Readback {
  /**
   * Waits for the values alone, not for what was queued behind them, and frees them after `read`. Call it
   * once.
   */
  take<R>(read: (host: Tensor) => R): R;
}

/** Page-locked memory with an event, for tensors of one shape and type: a step's are made once. */
interface Place {
  readonly host: Tensor;
  readonly there: Event;
}
const spare: Place[] = [];
const MOST_SPARE = 16;

/**
 * Starts the copy, and owns `t` from here on. A later item() on `t` would wait for all queued work; this copy
 * queues where the work does.
 */
export function startReadback(t: Tensor): Readback {
  if (t.device === "cpu") return { take: (read) => readAndFree(t, read) };
  const place = placeFor(t), { host, there } = place;
  copy_(host, t, true);
  recordEvent(there, currentStream());
  t.free();
  return {
    take(read) {
      synchroniseEvent(there);
      try {
        return read(host);
      } finally {
        giveBack(place);
      }
    },
  };
}

/** For page-locked memory that work before the event writes. */
export function readbackBehind(there: Event, host: Tensor): Readback {
  recordEvent(there, currentStream());
  return {
    take(read) {
      synchroniseEvent(there);
      return read(host);
    },
  };
}

function placeFor({ dtype, shape }: Tensor): Place {
  const same = ({ host }: Place) =>
    host.dtype === dtype && host.shape.length === shape.length && host.shape.every((n, i) => n === shape[i]);
  const known = spare.findIndex(same);
  if (known >= 0) return spare.splice(known, 1)[0];
  return { host: keep(uninitialised(shape, { dtype, pinned: true })), there: newEvent() };
}

function giveBack(place: Place): void {
  spare.push(place);
  if (spare.length <= MOST_SPARE) return;
  const { host, there } = spare.shift()!;
  host.free();
  destroyEvent(there);
}

function readAndFree<R>(host: Tensor, read: (host: Tensor) => R): R {
  try {
    return read(host);
  } finally {
    host.free();
  }
}
