// mixup and cutmix mix training samples in pairs, and their targets; classes become vectors of 0 and 1. Draws
// belong to a pair, so samples are the same however a batch is cut.
import * as ops from "../../../ffi/ops.ts";
import { isFloating, opmathType } from "../../../ffi/dtype.ts";
import { add, tensor, toDevice, toNumbers } from "../../../ffi/make.ts";
import { type Device, scope, type Tensor } from "../../../ffi/tensor.ts";
import type { Config } from "../../settings/settings.ts";
import { UserError } from "../../base/errors.ts";
import type { Facts } from "../../models/model.ts";
import { key, uniform } from "../../base/random.ts";
import { symmetricBeta } from "../augment/beta.ts";
import type { Batch, Part } from "../source/source.ts";
import type { Field } from "../source/reader.ts";

type Settings = Pick<Config["data"], "mixup" | "cutmix" | "one_hot">;

interface Mixer {
  apply(batch: Batch, part: Part, training: boolean): Batch;
  target(field: Field, training: boolean): Field;
}

export interface Mixing {
  readonly seed: number;
  readonly mixup: number;
  readonly cutmix: number;
}

export function mixer({ mixup, cutmix, one_hot }: Settings, facts: Facts, seed: number): Mixer | null {
  const mixing = mixup > 0 || cutmix > 0;
  if (!mixing && !one_hot) return null;
  const flag = mixup > 0 ? "--mixup" : mixing ? "--cutmix" : "--one-hot";
  check(flag, cutmix > 0, facts);
  const classes = facts.task === "classification" ? facts.outputs : 0, floats = opmathType(facts.input.dtype);
  if (one_hot && classes === 0) {
    throw new UserError(
      "usage",
      "--one-hot is for class labels, and the targets here are numbers: leave it out.",
    );
  }
  const soft = (training: boolean) => (one_hot || (training && mixing)) && classes > 0;
  let looked = false;
  const vectors = (labels: Tensor, { ids }: Part): Tensor => {
    // On a GPU only the first batch is checked: each check waits for the device.
    if (labels.device === "cpu" || !looked) refuseIgnored(flag, labels, classes, ids);
    looked = true;
    return oneHot(labels, classes, floats);
  };
  return {
    apply: ({ input, target: labels }, part, training) =>
      scope(() => {
        const target = soft(training) ? vectors(labels, part) : labels;
        return training && mixing ? mix({ input, target }, part, { seed, mixup, cutmix }) : { input, target };
      }),
    target: (field, training) => soft(training) ? { ...field, shape: [classes], dtype: floats } : field,
  };
}

/** An ignored label has no share to give: its sample would be learned as one of no class. */
function refuseIgnored(flag: string, labels: Tensor, classes: number, ids: Int32Array): void {
  const values = toNumbers(labels);
  const row = values.findIndex((label) => !(label >= 0 && label < classes));
  if (row < 0) return;
  throw new UserError(
    "data",
    `Sample ${ids[row]} has the label ${
      values[row]
    }, which is none of the ${classes} classes, and ${flag} makes ` +
      "shares of classes of each label: leave such samples out of the data, or that flag.",
  );
}

function check(flag: string, cutmix: boolean, { task, input, missing }: Facts): void {
  const refuse = (why: string) => new UserError("usage", `${flag} ${why}: leave it out.`);
  if (task === "segmentation") {
    throw refuse("is for samples with one target each, and here every pixel has its own");
  }
  if (task === "language") {
    throw refuse("is for samples with one target each, and here every token has its own");
  }
  if (missing) throw refuse("can't mix targets with missing points");
  if (flag !== "--one-hot" && !isFloating(input.dtype)) throw refuse("can't mix samples of whole numbers");
  if (cutmix && input.shape.length !== 3) {
    throw new UserError(
      "usage",
      `--cutmix takes a patch of an image from another, and samples here are [${input.shape.join(", ")}]: ` +
        "use --mixup, or leave it out.",
    );
  }
}

/** A label [N] that is no class has no 1 in [N, classes]. */
export function oneHot(labels: Tensor, classes: number, dtype: "f32" | "f64" = "f32"): Tensor {
  return scope(() => {
    const each = on(labels.device, tensor(BigInt64Array.from({ length: classes }, (_, i) => BigInt(i))));
    return ops.toDtype(ops.eq(ops.unsqueeze(ops.toDtype(labels, "i64"), 1), each), dtype);
  });
}

/** The batch keeps its own rows, each mixed with its mate. */
export function mix(batch: Batch, part: Part, mixing: Mixing): Batch {
  const { count, mates } = part, { device } = batch.input;
  return scope(() => {
    const own = {
      input: ops.narrow(batch.input, 0, 0, count),
      target: ops.narrow(batch.target, 0, 0, count),
    };
    if (mates === null) return own;
    const index = on(device, tensor(mates));
    const mate = {
      input: ops.indexSelect(batch.input, 0, index),
      target: ops.indexSelect(batch.target, 0, index),
    };
    const [height, width] = batch.input.shape.slice(-2);
    const { shares, targetShares, boxes } = drawnMix(part, mixing, height, width);
    let input = own.input;
    if (mixing.mixup > 0) input = blend(input, mate.input, shares);
    if (mixing.cutmix > 0) input = ops.where(inside(boxes, input), mate.input, input);
    return { input, target: blend(own.target, mate.target, targetShares) };
  });
}

/** Each choice about a pair has its own random number; the Beta distribution takes several. */
const COIN = 0, ROW = 1, COLUMN = 2, SHARE = 3;
const DRAWS = 1024;

/** Each sample has its own share, and the box that it takes from its mate. */
interface Drawn {
  readonly shares: Float64Array;
  readonly targetShares: Float64Array;
  /** First and last row, first and last column; the last are outside. */
  readonly boxes: readonly Int32Array[];
}

export function drawnMix(
  { epoch, ids, count, mates }: Part,
  mixing: Mixing,
  height: number,
  width: number,
): Drawn {
  const at = uniform(key(mixing.seed, "mixup", epoch));
  const shares = new Float64Array(count).fill(1), targetShares = new Float64Array(count).fill(1);
  const boxes = [0, 1, 2, 3].map(() => new Int32Array(count));
  for (let i = 0; i < count; i++) {
    const other = mates![i];
    if (other === i) continue;
    const pair = Math.min(ids[i], ids[other]);
    const of = (k: number) => at(pair * DRAWS + k);
    const cut = mixing.mixup === 0 || (mixing.cutmix > 0 && of(COIN) < 0.5);
    const share = symmetricBeta(cut ? mixing.cutmix : mixing.mixup, (k) => of(SHARE + k));
    if (!cut) shares[i] = targetShares[i] = share;
    else {
      const box = boxOf(share, of(ROW), of(COLUMN), height, width);
      box.forEach((edge, k) => boxes[k][i] = edge);
      targetShares[i] = 1 - (box[1] - box[0]) * (box[3] - box[2]) / (height * width);
    }
  }
  return { shares, targetShares, boxes };
}

/** The paper's box has the image's proportions and 1 - share of its area, rounded as in torchvision. */
export function boxOf(share: number, row: number, column: number, height: number, width: number): number[] {
  const half = 0.5 * Math.sqrt(1 - share);
  return [[row, height], [column, width]].flatMap(([at, length]) => {
    const centre = Math.floor(at * length), reach = Math.floor(half * length);
    return [Math.max(centre - reach, 0), Math.min(centre + reach, length)];
  });
}

function blend(a: Tensor, b: Tensor, shares: Float64Array): Tensor {
  const shape = a.shape.map((size, i) => i === 0 ? size : 1);
  const factor = (values: Float64Array) => on(a.device, tensor(Float32Array.from(values), shape));
  return add(ops.mul(b, factor(shares.map((share) => 1 - share))), ops.mul(a, factor(shares)));
}

/** Images are [N, C, H, W]. */
function inside([top, bottom, left, right]: readonly Int32Array[], { device, shape }: Tensor): Tensor {
  const within = (from: Int32Array, to: Int32Array, dimension: number) => {
    const along = (values: Int32Array, size: readonly number[]) => on(device, tensor(values, size));
    const place = along(
      Int32Array.from({ length: shape[dimension] }, (_, i) => i),
      dimension === 2 ? [1, 1, shape[2], 1] : [1, 1, 1, shape[3]],
    );
    const edge = [from.length, 1, 1, 1];
    return ops.logicalAnd(ops.ge(place, along(from, edge)), ops.lt(place, along(to, edge)));
  };
  return ops.logicalAnd(within(top, bottom, 2), within(left, right, 3));
}

/** Pinned memory avoids waiting for all that the GPU has queued. */
const on = (device: Device, t: Tensor): Tensor =>
  device === "cpu" ? t : toDevice(ops.pinMemory(t), device, true);
