// Brings batches to the device; on a GPU the next step's rows are copied while this one computes.
import { asStrided, contiguous, copy_, narrow, toDtype } from "../../ffi/ops.ts";
import { isFloating } from "../../ffi/dtype.ts";
import { type Device, keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { gatheredRows } from "../data/loader/gathered.ts";
import { type BatchRows, batchRows, openLoader } from "../data/loader/loader.ts";
import { partsOf, partsOfShards } from "../data/source/order.ts";
import { isMixing } from "../data/transforms/steps.ts";
import type { Sampling } from "../data/source/sampling.ts";
import {
  type Batch,
  finishesNothing,
  gathersRows,
  isSteady,
  type Part,
  type Source,
} from "../data/source/source.ts";
import type { Loss } from "../models/losses.ts";
import type { MicroBatch, Shards } from "./micro_batch.ts";
import {
  currentStream,
  type EventHandle,
  hasPassed,
  newEvent,
  onStream,
  poolStream,
  recordEvent,
  type Stream,
  type StreamMark,
  streamMark,
  synchroniseEvent,
  waitForEvent,
} from "../../ffi/cuda.ts";
import { uninitialised } from "../../ffi/make.ts";
import type { Config } from "../settings/settings.ts";
import { type BatchPlan, judgedAtOnce } from "./batches.ts";
import type { Built } from "./build.ts";
import type { Launch, Run } from "./launch.ts";

export interface Supply {
  begin(steps: () => readonly Part[] | null): void;
  /** True after the last step too. */
  ready(milliseconds: number): boolean;
  /** The caller's scope has the micro-batches; null after the last step. */
  take(): MicroBatch[] | null;
  /** All work is queued that reads what was taken. */
  queued(): void;
  ahead(): void;
}

export interface Feed {
  of(source: Source): Supply;
  /** Seconds. */
  waited(): number;
  skipped(): number;
  close(): void;
}

interface FeedOptions {
  readonly device: Device;
  /** cuDNN prefers this layout of image batches. */
  readonly channelsLast: boolean;
  readonly loss: Loss;
  readonly threads?: {
    readonly count: number;
    /** Bytes. */
    readonly prefetch: number;
    readonly lanes: readonly { readonly source: Source; readonly rows: number; readonly parts: number }[];
  };
}

export function openFeed({ device, channelsLast, loss, threads }: FeedOptions): Feed {
  const onDevice = (source: Source) => device === "cpu" ? source.host ?? source : source;
  const lanes = (threads?.lanes ?? [])
    .map((lane) => ({ ...lane, source: onDevice(lane.source) }))
    .filter(({ source }) => source.threaded);
  const loader = threads && threads.count > 0 && lanes.length > 0
    ? openLoader(
      // A GPU still computes with a step's rows when the next ones are copied.
      lanes.map(({ source, rows, parts }) => ({ source, rows, held: device === "cpu" ? parts : 2 * parts })),
      threads.count,
      threads.prefetch,
      device !== "cpu",
    )
    : null;
  const clock = { seconds: 0 };
  const supplies = new Map<Source, Supply>();
  const closing: (() => void)[] = [];
  const layout = (b: Batch): Batch =>
    channelsLast && b.input.shape.length === 4 ? { ...b, input: imagesLast(b.input) } : b;
  /** Without threads the training thread itself gathers or reads. */
  const rowsHere = (source: Source): BatchRows => {
    if (device !== "cpu" || !gathersRows(source)) return clocked(batchRows(source), clock);
    const rows = gatheredRows(source, clock);
    closing.push(rows.close);
    return rows;
  };
  return {
    of(given) {
      const source = onDevice(given);
      const known = supplies.get(source);
      if (known) return known;
      const lane = loader ? lanes.findIndex((one) => one.source === source) : -1;
      const rows = loader && lane >= 0 ? clocked(loader.lanes[lane], clock) : rowsHere(source);
      const supply = device === "cpu"
        ? onHost(source, rows, channelsLast ? layout : null)
        : overlapped(source, rows, lane >= 0, device, layout, loss);
      supplies.set(source, supply);
      return supply;
    },
    waited: () => clock.seconds,
    skipped: () =>
      [...supplies.keys()].reduce(
        (sum, source) => sum + (source.passedOver?.() ?? 0),
        loader?.skipped() ?? 0,
      ),
    close() {
      loader?.close();
      for (const close of closing.splice(0)) close();
    },
  };
}

/** Images of one channel lie the same either way: strides show libtorch which it is. */
export function imagesLast(images: Tensor): Tensor {
  const last = contiguous(images, "channels_last"), [, channels, height, width] = images.shape;
  return channels === 1 ? asStrided(last, images.shape, [height * width, 1, width, 1]) : last;
}

/** `layout` is null where batches stay as they come. */
function onHost(source: Source, rows: BatchRows, layout: ((b: Batch) => Batch) | null): Supply {
  const groups = groupsOf(rows), finished = rows.finished || finishesNothing(source);
  const taken = (part: Part): MicroBatch => {
    if (layout === null && finished) {
      const batch = rows.take(part);
      return part.shard === undefined ? batch : { ...batch, shard: part.shard };
    }
    const batch = scope(() => {
      const taken = rows.take(part), own = finished ? taken : source.finish(taken, part);
      return layout === null ? own : layout(own);
    });
    return { ...batch, shard: part.shard };
  };
  let held = 0;
  return {
    begin(steps) {
      held = 0;
      groups.begin(steps);
    },
    ready: groups.ready,
    queued: () => {},
    ahead: () => {},
    take() {
      rows.release(held); // the step that used them is over
      const group = groups.take();
      held = group?.length ?? 0;
      return group && group.map(taken);
    },
  };
}

function clocked(rows: BatchRows, clock: { seconds: number }): BatchRows {
  const timed = <R>(wait: () => R): R => {
    const began = performance.now();
    const result = wait();
    clock.seconds += (performance.now() - began) / 1000;
    return result;
  };
  return {
    ...rows,
    ready: (ahead, milliseconds) => timed(() => rows.ready(ahead, milliseconds)),
    take: (part, into) => timed(() => rows.take(part, into)),
  };
}

/** The host counts, where it costs no wait. */
function itemsIn(source: Source, target: Tensor, part: Part, loss: Loss): number {
  return scope(() => {
    const all = narrow(target, 0, 0, part.count), own = source.shorten?.(all, part.epoch) ?? all;
    return loss.validCount(isFloating(own.dtype) ? own : toDtype(own, "i64"));
  });
}

// The next step's rows are copied from pinned memory, on a stream of their own, while this step computes.

const FIELDS = ["input", "target"] as const;
type Place = Record<typeof FIELDS[number], Tensor>;

/** One slot is filled while the other is computed with. */
interface Slot {
  /** Page-locked, for rows that are not. */
  readonly pinned: Place[];
  readonly device: Place[];
  readonly copied: EventHandle;
  /** The work that reads `device` must be over before the next copy. */
  readonly used: EventHandle;
  /** Behind what reads `device`; undefined while that is queued, null before the first. */
  readers: StreamMark | null | undefined;
  /** `used` was recorded there. */
  recorded: boolean;
  /** Parts whose rows are copied from where they were read. */
  held: number;
}

/** `pinned`: the rows come in page-locked memory, which they own until they are copied. */
function overlapped(
  source: Source,
  rows: BatchRows,
  pinned: boolean,
  device: Device,
  layout: (b: Batch) => Batch,
  loss: Loss,
): Supply {
  const copying: Stream = poolStream();
  const groups = groupsOf(rows);
  const steady = isSteady(source);
  const slots: Slot[] = [0, 1].map(() => ({
    ...{ pinned: [], device: [], copied: newEvent(), used: newEvent() },
    ...{ readers: null, recorded: false, held: 0 },
  }));
  let turn = 0; // the slot to fill next
  let staged: { parts: readonly Part[]; items: number[] } | null = null;
  /** Where each step's numbers are waited for, as in training, its readers and its copy are known to be over. */
  let known = true;

  const release = (slot: Slot) => {
    rows.release(slot.held);
    slot.held = 0;
  };
  const stage = () => {
    const slot = slots[turn], other = slots[1 - turn];
    known = slot.readers === null || slot.readers !== undefined && hasPassed(slot.readers);
    if (!known) synchroniseEvent(other.copied); // earlier copies are over then too, and pinned rows can be written
    release(slot);
    if (!known) release(other);
    const parts = groups.take();
    if (parts === null) return;
    if (!known) {
      if (!slot.recorded) recordEvent(slot.used, currentStream());
      waitForEvent(copying, slot.used);
    }
    const items = parts.map((part, i) =>
      scope(() => {
        const count = part.ids.length, own = pinned ? undefined : placeFor(slot.pinned[i], count);
        const host = rows.take(part, own);
        for (const field of FIELDS) {
          grow(slot, i, field, host[field], device, copying, !pinned);
          const filled = pinned || host[field] === own?.[field];
          const from = filled ? host[field] : copy_(first(slot.pinned[i][field], count), host[field]);
          onStream(copying, () => copy_(first(slot.device[i][field], count), from, true));
        }
        return itemsIn(source, host.target, part, loss);
      })
    );
    recordEvent(slot.copied, copying);
    slot.held = parts.length;
    staged = { parts, items };
  };
  return {
    begin(steps) {
      for (const slot of slots) {
        synchroniseEvent(slot.copied);
        slot.held = 0;
      }
      staged = null;
      groups.begin(steps);
    },
    ready: (milliseconds) => staged !== null || groups.ready(milliseconds),
    queued() {
      const slot = slots[1 - turn], compute = currentStream();
      slot.readers = streamMark(compute);
      slot.recorded = !known;
      if (slot.recorded) recordEvent(slot.used, compute);
    },
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
      slot.readers = undefined;
      slot.recorded = false;
      waitForEvent(currentStream(), slot.copied);
      return parts.map((part, i) => {
        const memory = slot.device[i];
        const moved = {
          input: first(memory.input, part.ids.length),
          target: first(memory.target, part.ids.length),
        };
        const finish = (batch: Batch) => scope(() => layout(source.finish(batch, part)));
        const facts = { items: items[i], shard: part.shard };
        return steady ? { ...moved, ...facts, raw: { memory, finish } } : { ...finish(moved), ...facts };
      });
    },
  };
}

const first = (t: Tensor, count: number): Tensor => narrow(t, 0, 0, count);

/** Page-locked memory for so many rows, where there is as much; a source in memory gathers right into it. */
function placeFor(pinned: Partial<Place> | undefined, count: number): Place | undefined {
  const { input, target } = pinned ?? {};
  if (!(input && target && Math.min(input.shape[0], target.shape[0]) >= count)) return undefined;
  return { input: first(input, count), target: first(target, count) };
}

function grow(
  slot: Slot,
  i: number,
  field: keyof Place,
  host: Tensor,
  device: Device,
  copying: Stream,
  stagedLocally: boolean,
): void {
  const pinned = slot.pinned[i] ??= {} as Place;
  const { [field]: before } = slot.device[i] ??= {} as Place;
  if (before?.shape[0] >= host.shape[0]) return;
  pinned[field]?.free();
  before?.free();
  const { dtype, shape } = host;
  if (stagedLocally) pinned[field] = keep(uninitialised(shape, { dtype, pinned: true }));
  // On the computing stream, queued kernels could still write this memory.
  const more = onStream(copying, () => keep(uninitialised(shape, { dtype, device })));
  slot.device[i] = { ...slot.device[i], [field]: more }; // another memory: what was captured with the one before is over
}

interface Groups {
  begin(steps: () => readonly Part[] | null): void;
  /** True after the last step too. */
  ready(milliseconds: number): boolean;
  /** Null after the last step. The rows are to be taken now, in order. */
  take(): readonly Part[] | null;
  peek(): readonly Part[] | null;
}

function groupsOf(rows: BatchRows): Groups {
  let steps: () => readonly Part[] | null = () => null;
  const pulled: (readonly Part[])[] = []; // steps that were read ahead
  let group = 0, at = 0; // the next part to read
  const pull = (): boolean => {
    const next = steps();
    if (next === null) steps = () => null;
    else pulled.push(next);
    return next !== null;
  };
  const nextPart = (): Part | null => {
    for (;;) {
      if (group >= pulled.length && !pull()) return null;
      if (at < pulled[group].length) return pulled[group][at++];
      group++; // a rank can have no sample of a short last batch
      at = 0;
    }
  };
  const peek = () => pulled.length > 0 || pull() ? pulled[0] : null;
  return {
    begin(next) {
      pulled.length = group = at = 0;
      steps = () => null; // nobody reads the old steps while the rows begin anew
      rows.begin(() => null);
      steps = next;
      rows.begin(nextPart);
    },
    ready(milliseconds) {
      const parts = peek()?.length ?? 0;
      let i = 0;
      while (i < parts && rows.ready(i, 0)) i++;
      if (i === parts) return true;
      for (const end = performance.now() + milliseconds; i < parts; i++) {
        if (!rows.ready(i, Math.max(0, end - performance.now()))) return false;
      }
      return true;
    },
    peek,
    take() {
      const next = peek();
      if (next === null) return null;
      if (group > 0) group--;
      else at = 0; // nobody has read beyond this step
      pulled.shift();
      return next;
    },
  };
}

const MIB = 2 ** 20;

/** The feed of a run, with so many loader threads. */
export function openRunFeed(
  { config, device, loaders, team = null }: Launch,
  built: Built,
  plan: BatchPlan,
): Feed {
  const lanes = lanesOf(built, config, plan, team?.world ?? 1);
  const threads = { count: loaders, prefetch: config.data.prefetch_mib * MIB, lanes };
  return openFeed({ device, channelsLast: built.channelsLast, loss: built.pass.loss, threads });
}

/** A part's first and last sample may be mixed with these. */
const MATES = 2;

export function lanesOf({ data, pass }: Built, { training }: Config, plan: BatchPlan, world: number) {
  const { micro, global } = plan;
  const shards = training.deterministic === "world" ? training.virtual_shards / world : 1;
  const largest = Math.ceil(global / world / shards);
  const train = {
    source: data.train,
    rows: Math.min(micro, largest) + MATES,
    parts: Math.min(shards, global) * Math.ceil(largest / micro),
  };
  if (!data.val) return [train];
  return [train, { source: data.val, rows: judgedAtOnce(training, pass.patches, data.val), parts: 1 }];
}

/** This rank's parts of the epoch's steps, from step `first` on. */
export function partsOfEpoch(
  { config: { data }, plan, gradients: { shards }, ranks, sampling }: Pick<Run, "config" | "plan"> & {
    readonly gradients: { readonly shards: Shards | null };
    readonly ranks: { readonly team: { readonly rank: number; readonly world: number } } | null;
    readonly sampling: Sampling;
  },
  epoch: number,
  first: number,
): () => readonly Part[] | null {
  const samples = sampling.of(epoch);
  const { rank, world } = ranks?.team ?? { rank: 0, world: 1 };
  const mixing = isMixing(data);
  let fed = first;
  return () => {
    if (fed >= plan.stepsPerEpoch) return null;
    const step = fed++;
    return shards
      ? partsOfShards(samples, step, plan, epoch, mixing, shards.own, shards.count)
      : partsOf(samples, step, plan, epoch, mixing, rank, world);
  };
}
