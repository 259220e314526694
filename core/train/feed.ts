// Batches on the device. On a CPU a batch is gathered when it is wanted. On a GPU the next step's batches are
// gathered into pinned memory and copied on a stream of their own while this step computes. May import ffi, data.
import {
  currentStream,
  type Event,
  newEvent,
  onStream,
  poolStream,
  recordEvent,
  type Stream,
  synchroniseEvent,
  waitForEvent,
} from "../../ffi/cuda.ts";
import { toDevice, uninitialised } from "../../ffi/make.ts";
import { contiguous, copy_, narrow } from "../../ffi/ops.ts";
import { type Device, keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Source } from "../data/source.ts";
import type { MicroBatch } from "./step.ts";

export interface Feed {
  /** These samples at once, in the caller's scope. */
  now(source: Source, ids: Int32Array): MicroBatch;
  /** Starts bringing what the next call of take() will want. */
  prepare(source: Source, ids: readonly Int32Array[]): void;
  /** One step's micro-batches, in the caller's scope. */
  take(source: Source, ids: readonly Int32Array[]): MicroBatch[];
}

/** `channelsLast` lays image batches out as cuDNN likes them. */
export function openFeed(device: Device, channelsLast: boolean): Feed {
  const layout = (b: MicroBatch): MicroBatch =>
    channelsLast && b.input.shape.length === 4 ? { ...b, input: contiguous(b.input, "channels_last") } : b;
  if (device === "cpu") {
    const now = (source: Source, ids: Int32Array) => layout(source.batch(ids));
    return { now, prepare: () => {}, take: (source, ids) => ids.map((part) => now(source, part)) };
  }
  const now = (source: Source, ids: Int32Array) =>
    scope(() => {
      const { input, target } = source.batch(ids);
      return layout({ input: toDevice(input, device), target: toDevice(target, device) });
    });
  return { now, ...overlapped(device, layout) };
}

type Place = { -readonly [K in keyof MicroBatch]: Tensor };

/** One of two places a step's batches are copied through; while one is computed with, the other is filled. */
interface Slot {
  readonly pinned: Place[];
  readonly device: Place[];
  readonly copied: Event;
  /** Recorded when the step that reads the device half was queued: it must be over before the next copy. */
  readonly used: Event;
}

function overlapped(device: Device, layout: (b: MicroBatch) => MicroBatch): Pick<Feed, "prepare" | "take"> {
  const copying: Stream = poolStream();
  const slots: Slot[] = [0, 1].map(() => ({ pinned: [], device: [], copied: newEvent(), used: newEvent() }));
  let turn = 0;
  let ready: { ids: readonly Int32Array[]; slot: Slot; sizes: number[] } | null = null;

  const fill = (slot: Slot, source: Source, ids: readonly Int32Array[]) => {
    synchroniseEvent(slot.copied); // the pinned half may still be read by its last copy
    waitForEvent(copying, slot.used);
    ids.forEach((part, i) =>
      scope(() => {
        const host = source.batch(part);
        for (const field of ["input", "target"] as const) {
          grow(slot, i, field, host[field], device);
          const staged = copy_(first(slot.pinned[i][field], part.length), host[field]);
          onStream(copying, () => copy_(first(slot.device[i][field], part.length), staged, true));
        }
      })
    );
    recordEvent(slot.copied, copying);
  };
  const prepare = (source: Source, ids: readonly Int32Array[]) => {
    const slot = slots[turn];
    turn = 1 - turn;
    fill(slot, source, ids);
    ready = { ids, slot, sizes: ids.map((part) => part.length) };
  };
  return {
    prepare,
    take(source, ids) {
      if (ready === null || !same(ready.ids, ids)) prepare(source, ids);
      const { slot, sizes } = ready!;
      ready = null;
      const compute = currentStream();
      waitForEvent(compute, slot.copied);
      const batches = sizes.map((n, i) => ({
        input: first(slot.device[i].input, n),
        target: first(slot.device[i].target, n),
      }));
      // The other slot's readers are all queued by now: what follows on its buffers waits for them.
      recordEvent(slots[slots.indexOf(slot) ^ 1].used, compute);
      return batches.map(layout);
    },
  };
}

const first = (t: Tensor, count: number): Tensor => narrow(t, 0, 0, count);

function same(a: readonly Int32Array[], b: readonly Int32Array[]): boolean {
  return a.length === b.length && a.every((ids, i) => ids === b[i]);
}

/** Makes room for a batch where there is none yet, or too little. */
function grow(slot: Slot, i: number, field: keyof MicroBatch, host: Tensor, device: Device): void {
  slot.pinned[i] ??= {} as Place;
  slot.device[i] ??= {} as Place;
  if (slot.pinned[i][field]?.shape[0] >= host.shape[0]) return;
  const dtype = host.dtype;
  slot.pinned[i][field] = keep(
    uninitialised(host.shape, { dtype, pinned: true }),
  );
  slot.device[i][field] = keep(
    uninitialised(host.shape, { dtype, device }),
  );
}
