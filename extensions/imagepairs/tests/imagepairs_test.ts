// Image pairs as a source: numpy's numbers of every kind of label image, moved as the image is, and a sentence for what
// does not fit.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { detect } from "../../../core/data/open/formats.ts";
import { imagepairs } from "../imagepairs.ts";
import { batchOf, plainPart, type Source } from "../../../core/data/source/source.ts";
import { transformed } from "../../../core/data/transforms/apply.ts";
import type { Config } from "../../../core/settings/settings.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { scope } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../../tests/libtorch.ts";
import { inFolder, python } from "../../../tests/core/checkpoint/python.ts";
import { refusal } from "../../../tests/core/data/tables/columns_help.ts";
import { settings } from "../../../tests/core/data/tables/help.ts";
import { assertSentence, sentenceNamed } from "../../../tests/sentences.ts";

useLibtorch();
await imagepairs.reader!({ data_path: "", external_files: false });

/** The red of each pixel is 40 times its class, so that image and label can be compared. */
const MAKE = `
import json, os, sys
import numpy as np
from PIL import Image
root, r = sys.argv[1], np.random.default_rng(0)
for folder in ("images/a", "labels/a"): os.makedirs(os.path.join(root, folder))
truth = []
def image(name, label):
    pixels = r.integers(0, 255, (*label.shape, 3), dtype=np.uint8)
    pixels[..., 0] = np.where(label == 9, 0, label) * 40
    Image.fromarray(pixels).save(f"{root}/images/{name}.png")
    truth.append(label.tolist())
def label(most): return r.integers(0, most, (12, 17)).astype("u1")
for name, most in (("a/grey8", 5), ("b1", 2), ("palette", 5), ("wide", 5)):
    numbers = label(most)
    if name != "b1": numbers[2, 3] = 9
    image(name, numbers)
    path = f"{root}/labels/{name}.png"
    if name == "palette":
        picture = Image.fromarray(numbers, "P")
        picture.putpalette(r.integers(0, 255, 768).astype("u1").tobytes())
        picture.save(path, bits=4)
    elif name == "b1": Image.fromarray(numbers.astype(bool)).save(path)
    elif name == "wide": Image.fromarray(numbers.astype("u2")).save(path)
    else: Image.fromarray(numbers).save(path)
Image.fromarray(label(3)).save(root + "/labels/alone.png")
print(json.dumps(truth))
`;

function open(
  folder: string,
  data: Partial<Config["data"]> = {},
  ignored = 9,
  model: Partial<Config["model"]> = {},
) {
  const config = settings({ data: { data_path: folder, val_samples: 0, ...data }, model });
  return {
    ...imagepairs.open({ ...config, training: { ...config.training, seed: 1, ignore_index: ignored } }),
    data: config.data,
  };
}

const seen = (source: Source, epoch = 0) =>
  scope(() => {
    const ids = Array.from({ length: source.length }, (_, i) => i);
    const { input, target } = batchOf(source, plainPart(ids, epoch));
    const pixels = input.numel / input.shape[0] / 3;
    const all = toNumbers(input);
    const red = ids.map((i) =>
      Array.from(all.subarray(3 * i * pixels, (3 * i + 1) * pixels), (v) => Math.round(v * 255 / 40))
    );
    return { labels: [...toNumbers(target)], shape: target.shape, red: red.flat() };
  });

Deno.test(
  "label images of grey, of one bit, of 16 and with a palette are numpy's numbers, and are cut and turned as their images",
  inFolder((folder) => {
    const [grey, bit, palette, wide] = JSON.parse(python(MAKE, folder)) as number[][][];
    assertEquals(detect(folder), "imagepairs");
    const opened = open(folder), { train, val, notes } = opened;
    assertEquals([train.facts.task, train.facts.outputs, train.facts.missing, val], [
      "segmentation",
      5,
      true,
      null,
    ]);
    assertStringIncludes(notes.join("\n"), "5 classes, the most in all label images");
    assertStringIncludes(notes.join("\n"), "Left out 1 label image");
    const plain = seen(train);
    assertEquals(plain.shape, [4, 12, 17]);
    assertEquals(plain.labels, [bit, palette, wide, grey].flat(2)); // folders below come last
    assertEquals(train.pathOf!(3), join(folder, "images/a/grey8.png"));
    const alike = ({ labels, red }: typeof plain) =>
      labels.every((label, i) => red[i] === (label === 9 ? 0 : label));
    assert(alike(plain));
    const { train: cut } = transformed(opened, {
      data: { ...opened.data, random_crop: 8, flip: "both", rotate: true, normalise: "none" },
      seed: 3,
      quiet: true,
    });
    const epochs = [0, 1].map((epoch) => seen(cut, epoch));
    for (const one of epochs) assert(one.shape.join() === "4,8,8" && alike(one));
    assert(epochs[0].labels.join() !== epochs[1].labels.join(), "another crop in each epoch");

    imagepairs.preview!(folder, ({ samples, facts, pictures }) => {
      assertEquals([samples, pictures!.caption!(3)], [4, "a/grey8.png"]);
      const of = grey.flat().concat(bit.flat(), palette.flat(), wide.flat());
      const share = Number((100 * of.filter((label) => label === 9).length / of.length).toPrecision(3));
      assertStringIncludes(facts["pixels of each class"], `, 9 ${share}%`);
      const { shape, values } = pictures!.raster(0), [label] = bit.flat();
      assertEquals([shape, Number(values[0])], [[3, 12, 34], 40 * label]);
      assertEquals(Number(values[17]), [0, 230][label], "the label's colour, beside the image");
    });

    Deno.writeTextFileSync(join(folder, "classes.txt"), "sea\nice\nland\n");
    const refuse = (train: Source, what: string) => assertStringIncludes(refusal(() => seen(train)), what);
    const named = open(folder).train;
    assertEquals(named.names, ["sea", "ice", "land"]);
    refuse(named, "labels/palette.png) has the class ");
    refuse(
      open(folder, {}, -100, { output_size: 5 }).train,
      sentenceNamed("extensions/imagepairs/tests/imagepairs: stands unknown say"),
    );
    const make = (source: string) =>
      python(
        `import sys, numpy as np\nfrom PIL import Image\nroot = sys.argv[1]\n${source}\nprint(0)`,
        folder,
      );
    make(`Image.fromarray(np.zeros((12, 17, 3), "u1")).save(root + "/labels/b1.png")`);
    refuse(named, sentenceNamed("extensions/imagepairs/tests/imagepairs: labels png colours"));
    make(`Image.fromarray(np.zeros((6, 17), "u1")).save(root + "/labels/b1.png")`);
    refuse(named, sentenceNamed("extensions/imagepairs/tests/imagepairs: labels png images"));
    Deno.removeSync(join(folder, "labels/b1.png"));
    assertStringIncludes(refusal(() => open(folder)), "images/b1.png has no label image");
    make(`Image.fromarray(np.full((12, 17), 255, "u1")).save(root + "/labels/b1.png")`);
    Deno.removeSync(join(folder, "classes.txt"));
    assertSentence(
      "extensions/imagepairs/tests/imagepairs: mostly stands unknown",
      refusal(() => open(folder)),
    );
    Deno.mkdirSync(join(folder, "none"));
    assertStringIncludes(refusal(() => open(join(folder, "none"))), "has no folders images and labels");
  }),
);
