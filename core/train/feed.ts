// Batches on the device. On a CPU a batch is gathered when it is wanted. On a GPU the next step's batches are
// gathered into pinned memory and copied on a stream of their own while this step computes. May import ffi,
// types of models and data.
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
import type { Loss } from "../models/losses.ts";
import type { MicroBatch } from "./step.ts";

export interface Feed {
  /** These samples at once, in the caller's scope. */
  now(source: Source, ids: Int32Array): MicroBatch;
  /** Starts bringing what the next call of take() will want. */
  prepare(source: Source, ids: readonly Int32Array[]): void;
  /** One step's micro-batches, in the caller's scope. */
  take(source: Source, ids: readonly Int32Array[]): MicroBatch[];
}

/** `channelsLast` lays image batches out as cuDNN likes them. The loss counts its items here, where it costs no wait. */
export function openFeed(device: Device, channelsLast: boolean, loss: Loss): Feed {
  const layout = (b: MicroBatch): MicroBatch =>
    channelsLast && b.input.shape.length === 4 ? { ...b, input: contiguous(b.input, "channels_last") } : b;
  if (device === "cpu") {
    const now = (source: Source, ids: Int32Array) => layout(source.batch(ids));
    return { now, prepare: () => {}, take: (source, ids) => ids.map((part) => now(source, part)) };
  }
  const now = (source: Source, ids: Int32Array) =>
    scope(() => {
      const { input, target } = source.batch(ids);
      const items = loss.validCount(target);
      return layout({ input: toDevice(input, device), target: toDevice(target, device), items });
    });
  return { now, ...overlapped(device, layout, loss) };
}

type Place = Record<typeof FIELDS[number], Tensor>;
const FIELDS = ["input", "target"] as const;

/** One of two places a step's batches are copied through; while one is computed with, the other is filled. */
interface Slot {
  readonly pinned: Place[];
  readonly device: Place[];
  readonly copied: Event;
  /** Recorded when the step that reads the device half was queued: it must be over before the next copy. */
  readonly used: Event;
}

function overlapped(
  device: Device,
  layout: (b: MicroBatch) => MicroBatch,
  loss: Loss,
): Pick<Feed, "prepare" | "take"> {
  const copying: Stream = poolStream();
  const slots: Slot[] = [0, 1].map(() => ({ pinned: [], device: [], copied: newEvent(), used: newEvent() }));
  let turn = 0; // the slot to fill next; it passes to the other when its batches are taken
  let ready: { ids: readonly Int32Array[]; items: number[] } | null = null;

  const prepare = (source: Source, ids: readonly Int32Array[]) => {
    const slot = slots[turn];
    synchroniseEvent(slot.copied); // the pinned half may still be read by its last copy
    waitForEvent(copying, slot.used);
    const items = ids.map((part, i) =>
      scope(() => {
        const host = source.batch(part);
        for (const field of FIELDS) {
          grow(slot, i, field, host[field], device, copying);
          const staged = copy_(first(slot.pinned[i][field], part.length), host[field]);
          onStream(copying, () => copy_(first(slot.device[i][field], part.length), staged, true));
        }
        return loss.validCount(host.target);
      })
    );
    recordEvent(slot.copied, copying);
    ready = { ids, items };
  };
  return {
    prepare,
    take(source, ids) {
      if (ready === null || !same(ready.ids, ids)) prepare(source, ids);
      const { items } = ready!;
      ready = null;
      const slot = slots[turn];
      turn = 1 - turn;
      const compute = currentStream();
      waitForEvent(compute, slot.copied);
      // The other slot's readers are all queued by now: what is copied into its buffers next waits for them.
      recordEvent(slots[turn].used, compute);
      return ids.map((part, i) =>
        layout({
          input: first(slot.device[i].input, part.length),
          target: first(slot.device[i].target, part.length),
          items: items[i],
        })
      );
    },
  };
}

const first = (t: Tensor, count: number): Tensor => narrow(t, 0, 0, count);

function same(a: readonly Int32Array[], b: readonly Int32Array[]): boolean {
  return a.length === b.length && a.every((ids, i) => ids === b[i]);
}

/** Makes room for a batch where there is none yet, or too little. */
function grow(
  slot: Slot,
  i: number,
  field: keyof Place,
  host: Tensor,
  device: Device,
  copying: Stream,
): void {
  const pinned = slot.pinned[i] ??= {} as Place;
  const there = slot.device[i] ??= {} as Place;
  if (pinned[field]?.shape[0] >= host.shape[0]) return;
  pinned[field]?.free();
  there[field]?.free();
  const { dtype, shape } = host;
  pinned[field] = keep(uninitialised(shape, { dtype, pinned: true }));
  // Memory belongs to the stream it was asked for on: from the computing one, kernels queued there could still write it.
  there[field] = onStream(copying, () => keep(uninitialised(shape, { dtype, device })));
}
