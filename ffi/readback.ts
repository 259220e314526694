// Values that come from a device while the host goes on: page-locked memory, and an event behind the copy.
import {
  currentStream,
  destroyEvent,
  type EventHandle,
  newEvent,
  recordEvent,
  synchroniseEvent,
} from "./cuda.ts";
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
  readonly done: EventHandle;
}
const spare: Place[] = [];
const MOST_SPARE = 16;

/**
 * Starts the copy, and owns `t` from here on. A later item() on `t` would wait for all queued work; this copy
 * queues where the work does.
 */
export function startReadback(t: Tensor): Readback {
  if (t.device === "cpu") return { take: (read) => readAndFree(t, read) };
  const place = placeFor(t), { host, done } = place;
  copy_(host, t, true);
  recordEvent(done, currentStream());
  t.free();
  return {
    take(read) {
      synchroniseEvent(done);
      try {
        return read(host);
      } finally {
        giveBack(place);
      }
    },
  };
}

/** For page-locked memory that work before the event writes. */
export function readbackBehind(done: EventHandle, host: Tensor): Readback {
  recordEvent(done, currentStream());
  return {
    take(read) {
      synchroniseEvent(done);
      return read(host);
    },
  };
}

function placeFor({ dtype, shape }: Tensor): Place {
  const same = ({ host }: Place) =>
    host.dtype === dtype && host.shape.length === shape.length && host.shape.every((n, i) => n === shape[i]);
  const known = spare.findIndex(same);
  if (known >= 0) return spare.splice(known, 1)[0];
  return { host: keep(uninitialised(shape, { dtype, pinned: true })), done: newEvent() };
}

function giveBack(place: Place): void {
  spare.push(place);
  if (spare.length <= MOST_SPARE) return;
  const { host, done } = spare.shift()!;
  host.free();
  destroyEvent(done);
}

function readAndFree<R>(host: Tensor, read: (host: Tensor) => R): R {
  try {
    return read(host);
  } finally {
    host.free();
  }
}
