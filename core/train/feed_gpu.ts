// Batches on a GPU: the next step's rows are copied, from pinned memory and on a stream of their own, while this step
// computes; they are finished on the device. May import ffi, data, its siblings.
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
import { uninitialised } from "../../ffi/make.ts";
import { copy_, narrow } from "../../ffi/ops.ts";
import { type Device, keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Rows } from "../data/loader/rows.ts";
import type { Part, Source } from "../data/source.ts";
import type { Loss } from "../models/losses.ts";
import { itemsIn, type Supply } from "./feed.ts";
import { groupsOf } from "./groups.ts";
import type { MicroBatch } from "./step.ts";

const FIELDS = ["input", "target"] as const;
type Place = Record<typeof FIELDS[number], Tensor>;

/** One of two places a step's rows are copied through; while one is computed with, the other is filled. */
interface Slot {
  /** Page-locked, for rows that are not. */
  readonly pinned: Place[];
  readonly device: Place[];
  readonly copied: Event;
  /** Recorded when the step that reads the device half was queued: it must be over before the next copy. */
  readonly used: Event;
}

/** `pinned`: the rows come in page-locked memory, and it is theirs until their copy is over. */
export function overlapped(
  source: Source,
  rows: Rows,
  pinned: boolean,
  device: Device,
  layout: (b: MicroBatch) => MicroBatch,
  loss: Loss,
): Supply {
  const copying: Stream = poolStream();
  const groups = groupsOf(rows);
  const slots: Slot[] = [0, 1].map(() => ({ pinned: [], device: [], copied: newEvent(), used: newEvent() }));
  let turn = 0; // the slot to fill next; it passes to the other when its rows are taken
  let staged: { parts: readonly Part[]; items: number[] } | null = null;
  let held = 0; // parts whose rows are still being copied

  const stage = () => {
    const slot = slots[turn];
    synchroniseEvent(slot.copied); // the pinned half may still be read by its last copy
    synchroniseEvent(slots[1 - turn].copied);
    rows.release(held);
    held = 0;
    const parts = groups.take();
    if (parts === null) return;
    waitForEvent(copying, slot.used);
    const items = parts.map((part, i) =>
      scope(() => {
        const host = rows.take(part);
        for (const field of FIELDS) {
          grow(slot, i, field, host[field], device, copying, !pinned);
          const from = pinned
            ? host[field]
            : copy_(first(slot.pinned[i][field], part.ids.length), host[field]);
          onStream(copying, () => copy_(first(slot.device[i][field], part.ids.length), from, true));
        }
        return itemsIn(host.target, part, loss);
      })
    );
    recordEvent(slot.copied, copying);
    held = parts.length;
    staged = { parts, items };
  };
  return {
    begin(steps) {
      if (staged !== null) { for (const { copied } of slots) synchroniseEvent(copied); }
      staged = null;
      held = 0;
      groups.begin(steps);
    },
    ready: (milliseconds) => staged !== null || groups.ready(milliseconds),
    ahead() {
      if (staged === null && groups.peek() !== null && groups.ready(0)) stage();
    },
    take() {
      if (staged === null) stage();
      if (staged === null) return null;
      const { parts, items } = staged;
      staged = null;
      const slot = slots[turn];
      turn = 1 - turn;
      const compute = currentStream();
      waitForEvent(compute, slot.copied);
      // The other slot's readers are all queued by now: what is copied into its buffers next waits for them.
      recordEvent(slots[turn].used, compute);
      return parts.map((part, i) => {
        const there = {
          input: first(slot.device[i].input, part.ids.length),
          target: first(slot.device[i].target, part.ids.length),
        };
        return layout({ ...scope(() => source.finish(there, part)), items: items[i], shard: part.shard });
      });
    },
  };
}

const first = (t: Tensor, count: number): Tensor => narrow(t, 0, 0, count);

/** Makes room for rows where there is none yet, or too little. */
function grow(
  slot: Slot,
  i: number,
  field: keyof Place,
  host: Tensor,
  device: Device,
  copying: Stream,
  stagedHere: boolean,
): void {
  const pinned = slot.pinned[i] ??= {} as Place;
  const there = slot.device[i] ??= {} as Place;
  if (there[field]?.shape[0] >= host.shape[0]) return;
  pinned[field]?.free();
  there[field]?.free();
  const { dtype, shape } = host;
  if (stagedHere) pinned[field] = keep(uninitialised(shape, { dtype, pinned: true }));
  // Memory belongs to the stream it was asked for on: from the computing one, kernels queued there could still write it.
  there[field] = onStream(copying, () => keep(uninitialised(shape, { dtype, device })));
}
