// Classes of pixels, from images and label images with a border that nobody could label.
import { succeed } from "../integration/program.ts";
import { type Case, python } from "./case.ts";

/** Images to train, validate and test with, their side, and the training's flags. */
const SIZES = {
  small: {
    data: ["160", "16", "40", "32"],
    flags: ["--width", "8", "--depth", "2", "--epochs", "6"],
    iou: 0.6,
  },
  full: {
    data: ["1000", "100", "300", "64"],
    flags: ["--width", "12", "--depth", "3", "--epochs", "4"],
    iou: 0.9,
  },
};

/**
 * Fields, woods and lakes are told apart by colour and texture. Between them is a border of the class 255, in which
 * the colours are mixed; so are a few whole patches.
 */
const IMAGES = `
import os, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from PIL import Image
*counts, side = map(int, sys.argv[1:])
r = np.random.default_rng(0)
y, x = np.mgrid[:side, :side]
COLOURS = np.array([[150, 140, 80], [60, 110, 60], [70, 100, 140]], float)
TEXTURE = np.array([25.0, 55.0, 8.0])
PALETTE = [200, 180, 90, 30, 110, 40, 40, 90, 200] + 3 * 252 * [0] + [255, 255, 255]
for part, count in zip(("train", "val", "test"), counts):
    for folder in ("images", "labels"): os.makedirs(f"land/{part}/{folder}")
    for i in range(count):
        places, kinds = r.uniform(0, side, (7, 2)), r.integers(0, 3, 7)
        far = np.hypot(y[..., None] - places[:, 0], x[..., None] - places[:, 1])
        near = np.sort(far, -1)
        label = kinds[far.argmin(-1)].astype("u1")
        light = r.uniform(0.8, 1.2)
        colour = COLOURS[label] * light + TEXTURE[label][..., None] * r.normal(size=(side, side, 1)) + 15 * r.normal(size=(side, side, 3))
        border = near[..., 1] - near[..., 0] < 1.5
        colour[border] = r.uniform(0, 255, 3)
        label[border] = 255
        if i % 8 == 0: label[: side // 3, : side // 3] = 255
        Image.fromarray(colour.clip(0, 255).astype("u1")).save(f"land/{part}/images/{i:05}.png")
        picture = Image.fromarray(label, "P")
        picture.putpalette(PALETTE)
        picture.save(f"land/{part}/labels/{i:05}.png")
open("land/classes.txt", "w").write("field\\nwood\\nlake\\n")
`;

const CHECK = `
import glob, json, sys
import numpy as np
from PIL import Image
found = np.load("test.npz")
truth = np.stack([np.asarray(Image.open(path)) for path in sorted(glob.glob("land/test/labels/*.png"))])[found["id"]]
label, seen = found["prediction"].argmax(1), truth != 255
iou = [(seen & (truth == k) & (label == k)).sum() / (seen & ((truth == k) | (label == k))).sum() for k in range(3)]
json.dump({
    "void": float((~seen).mean()),
    "truth": int((found["target"] == truth).all()),
    "iou": iou,
    "accuracy": float((label == truth)[seen].mean()),
}, sys.stdout)
`;

const NAMES = ["field", "wood", "lake"];

export const pixelClasses: Case = {
  promise: "classes of pixels are learnt from image pairs, and what nobody could label counts nowhere",
  async run(cwd, size) {
    const { data, flags, iou } = SIZES[size];
    await python(["-c", IMAGES, ...data], cwd);
    const void_ = "--set=training.ignore_index=255";
    const model = [
      "--model",
      "unet",
      "--batch-size",
      "8",
      "--lr",
      "1e-2",
      "--flip",
      "both",
      "--rotate",
      void_,
    ];
    const quiet = [
      "--device",
      "cpu",
      "--no-wandb",
      "--quiet",
      ...(size === "small" ? ["--threads", "1"] : []),
    ];
    const run = ["--data-path", "land", "--run-name", "land"];
    await succeed([...run, ...model, ...flags, ...quiet], { cwd, timeout: 7200 });
    const test = ["checkpoints/land_best.pt", "--on", "test"];
    const { metrics } = JSON.parse((await succeed(["eval", ...test, "--json"], { cwd })).stdout);
    await succeed(["predict", ...test, "--out", "test.npz"], { cwd });
    const found = JSON.parse(await python(["-c", CHECK], cwd));
    return [
      { what: "share of pixels that nobody labelled", value: found.void, atLeast: 0.05 },
      { what: "the targets in the file are the label images'", value: found.truth, atLeast: 1 },
      { what: "mean IoU", value: metrics.mean_iou, atLeast: iou },
      ...NAMES.map((name, i) => ({
        what: `IoU of ${name} by numpy less eval's`,
        value: Math.abs(found.iou[i] - metrics[`iou/${name}`]),
        atMost: 1e-6,
      })),
      {
        what: "accuracy by numpy less eval's",
        value: Math.abs(found.accuracy - metrics.accuracy),
        atMost: 1e-6,
      },
    ];
  },
};
