// A measure keeps sums of a batch. Measures have these in common: masks in the shape of what they cover, and constants on
// each device.
import { tensor, toDevice } from "../../ffi/make.ts";
import { expand, ne, reshape, zerosLike } from "../../ffi/ops.ts";
import { type Device, keep, scope, type Tensor } from "../../ffi/tensor.ts";

/** Names are those of events: r2, mae, ...; "r2/NAME" for one target or class. */
export type Metrics = Record<string, number>;

export interface Measured {
  readonly metrics: Metrics;
  /** The least R2 of several numbers. */
  readonly worst: { readonly name: string; readonly r2: number } | null;
}

export interface Measure {
  readonly size: number;
  /** False where the loss alone is enough. */
  readonly seesOutputs: boolean;
  /** Several batches of one size are taken at once. */
  readonly many: boolean;
  /**
   * `batches` lie one after the other in the first dimension; the sums are [batches, size] in f64. A row
   * depends on its own batch alone, to the bit. `mask` is 0 where nothing counts.
   */
  rows(output: Tensor, target: Tensor, batches: number, mask?: Tensor | null): Tensor;
  /** The same of one small batch that lies on the host, and a place for its loss behind them; null of another. */
  sumsOnHost?(output: Tensor, target: Tensor): Float64Array | null;
  finish(sums: Float64Array, loss: number): Measured;
}

/** True where the mask is not 0, in the shape of the items. */
export function spreadMask(mask: Tensor, items: Tensor): Tensor {
  const { shape } = items;
  const wide = mask.numel === items.numel
    ? reshape(mask, shape)
    : expand(reshape(mask, [shape[0], ...shape.slice(1).map(() => 1)]), shape);
  return ne(wide, zerosLike(wide));
}

/** Each device's tensor is made once. */
export function constantOnDevice(
  make: () => Float64Array,
): (device: Device, shape: readonly number[]) => Tensor {
  const cached = new Map<Device, Tensor>();
  return (device, shape) => {
    let t = cached.get(device);
    if (t === undefined) cached.set(device, t = keep(scope(() => toDevice(tensor(make()), device))));
    return reshape(t, shape);
  };
}
