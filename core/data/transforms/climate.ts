// Anomalies, inputs filled with the climatology, and the climatology as channels: each sample's own rows of the
// means are gathered on the batch's device.
import { add, onEachDevice, sub, tensor, toDevice } from "../../../ffi/make.ts";
import { cat, indexSelect, narrow, reshape } from "../../../ffi/ops.ts";
import { type Device, scope, type Tensor } from "../../../ffi/tensor.ts";
import type { Climate, VariableSpan } from "../source/climate.ts";
import { product } from "../arrays/numbers.ts";
import { indexTensor } from "../source/memory.ts";
import type { Ids, Source } from "../source/source.ts";

/** Means of all channels of a row, by season and point: [places, channels, ...map]. */
const meansTable = (values: Float32Array, shape: readonly number[]) => ({
  ...{ values, shape },
  on: onEachDevice(() => tensor(values, shape)),
});

type Table = ReturnType<typeof meansTable>;

/** Other channels have 0. */
function tableOf(
  { climatology }: Climate,
  spans: readonly VariableSpan[],
  has: (name: string) => boolean,
): Table {
  const [first] = Object.values(climatology.means);
  const places = first.shape[0] * first.shape[1], [, ...map] = spans[0].shape;
  const all = spans.reduce((sum, { shape }) => sum + product(shape), 0);
  const values = new Float32Array(places * all);
  let at = 0;
  for (const { name, shape } of spans) {
    const width = product(shape), from = climatology.means[name]?.values;
    for (let place = 0; from && has(name) && place < places; place++) {
      values.set(from.subarray(place * width, (place + 1) * width), place * all + at);
    }
    at += width;
  }
  return meansTable(values, [places, all / product(map), ...map]);
}

/** It gives the means of the rows at these distances from each sample's own, side by side in dimension 1. */
const finder =
  (table: Table, { climate, indices }: Source) =>
  (ids: Ids, offsets: readonly number[], device: Device): Tensor => {
    const { place } = climate!, rows = new Int32Array(ids.length * offsets.length);
    let at = 0;
    for (const id of ids) {
      for (const offset of offsets) rows[at++] = place((indices ? indices[id] : id) + offset);
    }
    const [, channels, ...map] = table.shape;
    const found = indexSelect(table.on(device), 0, toDevice(indexTensor(rows), device));
    return reshape(found, [ids.length, offsets.length * channels, ...map]);
  };

/** A target's part of a distribution that has no place of its own, such as a variance, is not shifted. */
type Shifted = readonly boolean[];

/** Values become differences from the climatology, before anything else is done with them. */
export function withAnomalies(source: Source, names: readonly string[]): Source {
  const { climate } = source;
  if (!climate || names.length === 0) return source;
  const has = (name: string) => names.includes(name);
  const { inputs, leads, features, targets, hasTargets } = climate;
  const ofInputs = features.some(({ name }) => has(name)) ? tableOf(climate, features, has) : null;
  const ofTargets = targets.some(({ name }) => has(name)) ? tableOf(climate, targets, has) : null;
  const shift = (t: Tensor, table: Table | null, ids: Ids, offsets: readonly number[], back = false) => {
    if (table === null || offsets.length === 0) return t;
    const means = reshape(finder(table, source)(ids, offsets, t.device), [ids.length, ...t.shape.slice(1)]);
    return back ? add(t, means) : sub(t, means);
  };
  const gaps = (table: Table | null) => table !== null && table.values.some(Number.isNaN);
  const missing = {
    input: source.missing?.input === true || gaps(ofInputs),
    target: source.missing?.target === true || (hasTargets && gaps(ofTargets)),
  };
  return {
    ...source,
    missing,
    facts: { ...source.facts, ...(missing.target && { missing: true }) },
    bytewise: false,
    finish: (raw, part) =>
      scope(() => {
        const { input, target } = source.finish(raw, part);
        return {
          input: shift(input, ofInputs, part.ids, inputs),
          target: hasTargets ? shift(target, ofTargets, part.ids, leads) : target,
        };
      }),
    ...(ofTargets && {
      anomalies: true,
      restore: (values: Tensor, ids: Ids, parts: Shifted = [true]) =>
        scope(() => {
          const each = values.shape[1] / parts.length;
          const shifted = parts.map((own, i) => {
            const part = parts.length === 1 ? values : narrow(values, 1, i * each, each);
            return own ? shift(part, ofTargets, ids, leads, true) : part;
          });
          return shifted.length === 1 ? shifted[0] : cat(shifted, 1);
        }),
    }),
  };
}

/** The climatology of the samples' inputs, 0 of an anomaly; NaN at points that it lacks. */
export function meansOfInputs(
  source: Source,
  anomalies: readonly string[],
): (ids: Ids, device: Device) => Tensor {
  const { features, inputs } = source.climate!;
  const find = finder(tableOf(source.climate!, features, (name) => !anomalies.includes(name)), source);
  return (ids, device) => find(ids, inputs, device);
}

/** The targets' climatology at the times that are predicted, brought to mean 0 and deviation 1 over all of it. */
export function withClimateChannels(source: Source): Source {
  const { climate } = source;
  if (!climate) return source;
  const { values, shape } = tableOf(climate, climate.targets, () => true);
  const find = finder(meansTable(standardised(values, shape), shape), source);
  const wide = source.input.shape.with(0, source.input.shape[0] + climate.leads.length * shape[1]);
  return {
    ...source,
    input: { ...source.input, shape: wide },
    facts: { ...source.facts, input: { ...source.facts.input, shape: wide } },
    bytewise: false,
    finish: (raw, part) =>
      scope(() => {
        const { input, target } = source.finish(raw, part);
        return { input: cat([input, find(part.ids, climate.leads, input.device)], 1), target };
      }),
  };
}

/** Channel by channel; missing points become 0. */
function standardised(values: Float32Array, [places, channels, ...map]: readonly number[]): Float32Array {
  const points = product(map), made = new Float32Array(values.length);
  for (let channel = 0; channel < channels; channel++) {
    const each = (use: (value: number, at: number) => void) => {
      for (let place = 0; place < places; place++) {
        const from = (place * channels + channel) * points;
        for (let at = from; at < from + points; at++) if (!Number.isNaN(values[at])) use(values[at], at);
      }
    };
    let count = 0, sum = 0, squares = 0;
    each((value) => (count++, sum += value));
    const mean = sum / count;
    each((value) => squares += (value - mean) ** 2);
    const deviation = Math.sqrt(squares / count) || 1;
    each((value, at) => made[at] = (value - mean) / deviation);
  }
  return made;
}
