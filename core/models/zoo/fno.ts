// fno: the Fourier neural operator of Li et al. 2021 in two dimensions, for periodic maps of any sides.
import { opmathType } from "../../../ffi/dtype.ts";
import { add, scalar, uninitialised } from "../../../ffi/make.ts";
import {
  bmm,
  cat,
  cumsum,
  expand,
  fftIrfft2,
  fftRfft2,
  gelu,
  narrow,
  pad,
  permute,
  reshape,
  toDtype,
  viewAsComplex,
} from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { type Block, block, type Model, model } from "../model.ts";
import { Conv2d } from "../nn/conv.ts";
import { normal } from "../nn/init.ts";
import { Group, Module } from "../nn/module.ts";
import { UserError } from "../../base/errors.ts";
import { type Build, imageSizes, refuseData } from "../builder.ts";

interface FnoSizes {
  readonly channels: number;
  /** The channels between layers. */
  readonly filters: number;
  readonly layers: number;
  /** The lowest frequencies of each dimension that a layer changes; half a side has the most. */
  readonly modes: number;
  readonly outputs: number;
}

const HIDDEN = 128;

/** Each low frequency has a matrix of its own from channels to channels; higher ones are cut off. */
class Spectral extends Module {
  /** (2 * modes, modes, in, out, real and imaginary): frequencies of rows from 0 up, then those below 0. */
  readonly weight: Tensor;
  readonly #modes: number;
  readonly #filters: number;

  constructor({ modes, filters }: FnoSizes) {
    super();
    const shape = [2 * modes, modes, filters, filters, 2];
    this.weight = this.parameter("weight", normal(uninitialised(shape), 0, Math.sqrt(1 / (2 * filters))));
    this.#modes = modes;
    this.#filters = filters;
  }

  forward(x: Tensor): Tensor {
    const [items, , height, width] = x.shape, modes = this.#modes, filters = this.#filters;
    const all = fftRfft2(exact(x));
    const low = narrow(all, 3, 0, modes);
    const rows = cat([narrow(low, 2, 0, modes), narrow(low, 2, height - modes, modes)], 2);
    const each = reshape(permute(rows, [2, 3, 0, 1]), [-1, items, filters]);
    const matrices = reshape(viewAsComplex(this.weight), [-1, filters, filters]);
    const changed = permute(reshape(bmm(each, matrices), [2 * modes, modes, items, filters]), [2, 3, 0, 1]);
    const beyond = Math.floor(width / 2) + 1 - modes;
    const above = pad(narrow(changed, 2, 0, modes), [0, beyond, 0, height - 2 * modes]);
    const below = pad(narrow(changed, 2, modes, modes), [0, beyond]);
    return fftIrfft2(cat([above, below], 2), [height, width]);
  }
}

/** cuFFT has no bf16, and fp16 for few sizes; on a GPU autocast leaves it to us. */
const exact = (x: Tensor): Tensor => x.dtype === "bf16" || x.dtype === "f16" ? toDtype(x, "f32") : x;

class Layer extends Module {
  readonly #spectral: Spectral;
  readonly #local: Conv2d;

  constructor(sizes: FnoSizes, readonly last: boolean) {
    super();
    this.#spectral = this.child("spectral", new Spectral(sizes));
    this.#local = this.child("local", new Conv2d(sizes.filters, sizes.filters, 1));
  }
  forward(x: Tensor): Tensor {
    const y = add(this.#spectral.forward(x), this.#local.forward(x));
    return this.last ? y : gelu(y);
  }
}

export function fno(sizes: FnoSizes): Model {
  const { channels, filters, layers, modes, outputs } = sizes;
  const root = new Group();
  const lift = root.add("lift", new Conv2d(channels + 2, filters, 1));
  const blocks: Block[] = [block("lift", lift, (x) => lift.forward(cat([x, placesLike(x)], 1)))];
  const named = root.add("layers", new Group());
  for (let i = 0; i < layers; i++) {
    const layer = named.add(i, new Layer(sizes, i === layers - 1));
    blocks.push(block(`layers.${i}`, layer, (x) => layer.forward(x)));
  }
  const head = root.add("head", new Group());
  const first = head.add(0, new Conv2d(filters, HIDDEN, 1)),
    last = head.add(2, new Conv2d(HIDDEN, outputs, 1));
  blocks.push(block("head", head, (x) => last.forward(gelu(first.forward(x)))));
  return model("fno", root, blocks, {
    layers: `${layers} layers of ${filters} channels, ${modes} modes`,
    convolutional: true,
  });
}

/** Where each point is, up to 1: two channels, rows and columns. */
function placesLike(x: Tensor): Tensor {
  const [items, , height, width] = x.shape;
  const along = (side: number, shape: number[]) => {
    const steps = expand(scalar(1 / side, opmathType(x.dtype), x.device), [side]);
    return expand(reshape(cumsum(steps, 0), shape), [items, 1, height, width]);
  };
  return cat([along(height, [1, 1, height, 1]), along(width, [1, 1, 1, width])], 1);
}

export const models: Readonly<Record<string, Build>> = {
  fno(settings, facts, outputs) {
    if (facts.task === "classification") refuseData("fno", facts, "an answer per pixel");
    const { channels, height, width } = imageSizes(settings, facts);
    const most = Math.floor(Math.min(height, width) / 2);
    if (settings.modes > most || most === 0) {
      throw new UserError(
        "usage",
        most === 0
          ? `the model fno needs waves, and maps of ${height} x ${width} have none: choose another --model.`
          : `maps of ${height} x ${width} have ${most} frequencies a side, and model.modes is ${settings.modes}: ` +
            `set --modes to ${most} or less, or leave it out.`,
      );
    }
    const modes = settings.modes || Math.min(12, most);
    return fno({ channels, filters: settings.width || 32, layers: settings.layers, modes, outputs });
  },
};
