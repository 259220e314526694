// simple-convnet: the network of PyTorch's MNIST example, for any image size and channels. May import ffi,
// core/errors, nn, model.
import { flatten, maxPool2d, relu_ } from "../../../ffi/ops.ts";
import { UserError } from "../../errors.ts";
import { block, type Model, model } from "../model.ts";
import { Conv2d } from "../nn/conv.ts";
import { Dropout } from "../nn/dropout.ts";
import { Linear } from "../nn/linear.ts";
import { Group } from "../nn/module.ts";

export interface SimpleConvnetSizes {
  readonly channels: number;
  readonly height: number;
  readonly width: number;
  readonly outputs: number;
  /** Instead of the example's own 0.25 and 0.5. */
  readonly dropout?: number;
}

const POOL = [2, 2];

export function simpleConvnet({ channels, height, width, outputs, dropout }: SimpleConvnetSizes): Model {
  const rows = Math.floor((height - 4) / 2), columns = Math.floor((width - 4) / 2);
  if (rows < 1 || columns < 1) {
    throw new UserError(
      "usage",
      `the model simple-convnet needs images of at least 6 x 6 pixels, and these are ${height} x ${width}: ` +
        "choose another --model, e.g. mlp.",
    );
  }
  const root = new Group();
  const conv1 = root.add("conv1", new Conv2d(channels, 32, 3));
  const conv2 = root.add("conv2", new Conv2d(32, 64, 3));
  const dropout1 = root.add("dropout1", new Dropout(dropout ?? 0.25));
  const dropout2 = root.add("dropout2", new Dropout(dropout ?? 0.5));
  const fc1 = root.add("fc1", new Linear(64 * rows * columns, 128));
  const fc2 = root.add("fc2", new Linear(128, outputs));

  const blocks = [
    block(
      "convolutions",
      new Group({ conv1, conv2, dropout1 }),
      // The example has the second relu before the pool: the result is the same to the bit, of four times as many numbers.
      (x) => dropout1.forward(relu_(maxPool2d(conv2.forward(relu_(conv1.forward(x))), POOL))),
    ),
    block(
      "head",
      new Group({ dropout2, fc1, fc2 }),
      (x) => fc2.forward(dropout2.forward(relu_(fc1.forward(flatten(x, 1))))),
    ),
  ];
  return model("simple-convnet", root, blocks, {
    layers: "convolutions 32-64, linear 128",
    convolutional: true,
    channelsLastOnCpu: true,
  });
}
