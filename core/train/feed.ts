// Batches on the device, step by step. Raw rows come from memory or from loader threads (data/loader); here they are
// brought to the device and finished. May import ffi, data, types of models.
import { asStrided, contiguous, narrow, toDtype } from "../../ffi/ops.ts";
import { isFloating } from "../../ffi/dtype.ts";
import { type Device, scope, type Tensor } from "../../ffi/tensor.ts";
import { openLoader } from "../data/loader/loader.ts";
import { type Rows, rowsOf } from "../data/loader/rows.ts";
import type { Part, Source } from "../data/source.ts";
import type { Loss } from "../models/losses.ts";
import { overlapped } from "./feed_gpu.ts";
import { groupsOf } from "./groups.ts";
import type { MicroBatch } from "./step.ts";

/** One source's batches, in the order they were begun with. */
export interface Supply {
  /** The parts of each step to come, until null. */
  begin(steps: () => readonly Part[] | null): void;
  /** Whether the next step's batches are here, or there is no next step; waits for them no longer than that. */
  ready(milliseconds: number): boolean;
  /** One step's micro-batches, in the caller's scope; null after the last. */
  take(): MicroBatch[] | null;
  /** Starts bringing the next step's batches to the device, if they are here. */
  ahead(): void;
}

export interface Feed {
  /** The one supply of a source that the feed was opened with, or of any other without threads. */
  of(source: Source): Supply;
  /** Seconds spent waiting for data so far. */
  waited(): number;
  /** Bad samples passed over so far. */
  skipped(): number;
  close(): void;
}

export interface FeedOptions {
  readonly device: Device;
  /** Image batches laid out as cuDNN likes them. */
  readonly channelsLast: boolean;
  readonly loss: Loss;
  readonly threads?: {
    readonly count: number;
    /** Most bytes read ahead. */
    readonly prefetch: number;
    /** Who is read by them, the rows of the largest part, and the parts of a step. */
    readonly lanes: readonly { readonly source: Source; readonly rows: number; readonly parts: number }[];
  };
}

export function openFeed({ device, channelsLast, loss, threads }: FeedOptions): Feed {
  const here = (source: Source) => device === "cpu" ? source.host ?? source : source;
  const lanes = (threads?.lanes ?? [])
    .map((lane) => ({ ...lane, source: here(lane.source) }))
    .filter(({ source }) => source.threaded);
  const loader = threads && threads.count > 0 && lanes.length > 0
    ? openLoader(
      lanes.map(({ source, rows, parts }) => ({ source, rows, held: parts })),
      threads.count,
      threads.prefetch,
      device !== "cpu",
    )
    : null;
  const clock = { seconds: 0 };
  const supplies = new Map<Source, Supply>();
  const layout = (b: MicroBatch): MicroBatch =>
    channelsLast && b.input.shape.length === 4 ? { ...b, input: imagesLast(b.input) } : b;
  return {
    of(given) {
      const source = here(given);
      const known = supplies.get(source);
      if (known) return known;
      const lane = loader ? lanes.findIndex((one) => one.source === source) : -1;
      const rows = lane < 0 ? rowsOf(source) : loader!.lanes[lane];
      const timed = clocked(rows, clock);
      const supply = device === "cpu"
        ? onHost(source, timed, layout)
        : overlapped(source, timed, lane >= 0, device, layout, loss);
      supplies.set(source, supply);
      return supply;
    },
    waited: () => clock.seconds,
    skipped: () =>
      [...supplies.keys()].reduce(
        (sum, source) => sum + (source.passedOver?.() ?? 0),
        loader?.skipped() ?? 0,
      ),
    close: () => loader?.close(),
  };
}

/** Images of one channel lie the same either way, so libtorch has to be told by their strides which it is. */
export function imagesLast(images: Tensor): Tensor {
  const last = contiguous(images, "channels_last"), [, channels, height, width] = images.shape;
  return channels === 1 ? asStrided(last, images.shape, [height * width, 1, width, 1]) : last;
}

function onHost(source: Source, rows: Rows, layout: (b: MicroBatch) => MicroBatch): Supply {
  const groups = groupsOf(rows);
  let held = 0;
  return {
    begin(steps) {
      held = 0;
      groups.begin(steps);
    },
    ready: groups.ready,
    ahead: () => {},
    take() {
      rows.release(held); // the step that used them is over
      const group = groups.take();
      held = group?.length ?? 0;
      return group &&
        group.map((part) =>
          layout({ ...scope(() => source.finish(rows.take(part), part)), shard: part.shard })
        );
    },
  };
}

/** The same rows, their waiting counted. */
function clocked(rows: Rows, clock: { seconds: number }): Rows {
  const timed = <R>(wait: () => R): R => {
    const began = performance.now();
    const result = wait();
    clock.seconds += (performance.now() - began) / 1000;
    return result;
  };
  return {
    ...rows,
    ready: (ahead, milliseconds) => timed(() => rows.ready(ahead, milliseconds)),
    take: (part) => timed(() => rows.take(part)),
  };
}

/** The items that a part's loss is a mean over, counted on the host, where it costs no wait. */
export function itemsIn(target: Tensor, part: Part, loss: Loss): number {
  return scope(() => {
    const own = narrow(target, 0, 0, part.count);
    return loss.validCount(isFloating(own.dtype) ? own : toDtype(own, "i64"));
  });
}
