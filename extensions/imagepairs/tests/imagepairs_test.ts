// Image pairs as a source: numpy's numbers of every kind of label image, moved as the image is, and a sentence for what
// does not fit.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { detect } from "../../../core/data/open/formats.ts";
import { gifHeader, gifNumbers } from "../gif.ts";
import { reader as imagepairs } from "../imagepairs.ts";
import { BadSample } from "../../../core/data/arrays/rows.ts";
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
await imagepairs.prepare!({ data_path: "", external_files: false });

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

/** Masks as the collections of segmentation have them, and what numpy sees in each. */
const MASKS = `
import json, os, sys
import numpy as np
from PIL import Image
root, r = sys.argv[1], np.random.default_rng(1)
os.makedirs(root + "/scans"); os.makedirs(root + "/truth")
seen = []
for i in range(12):
    Image.fromarray(r.integers(0, 255, (24, 33, 3), dtype=np.uint8)).save(f"{root}/scans/{i}.png")
    kind = i % 4
    mask = (r.random((24, 33)) < 0.3).astype("u1") if i else np.kron(np.eye(24, 33), 1).astype("u1")
    path = f"{root}/truth/{i}_mask.gif"
    picture = Image.fromarray(mask, "P")
    picture.putpalette([0, 0, 0, 255, 255, 255])
    if kind == 0: picture.save(path)
    elif kind == 1: picture.save(path, interlace=1)
    elif kind == 2: picture.save(path, transparency=0)
    else:
        mask = (r.random((24, 33)) * 3).astype("u1") % 2
        Image.fromarray(mask * 255, "L").point(lambda v: v // 255).save(path, interlace=0)
    with Image.open(path) as again: numbers = np.array(again if again.mode in "PL" else again.convert("L"))
    seen.append((numbers > 0).astype(int).tolist())
print(json.dumps([seen[i] for i in sorted(range(12), key=str)]))
`;

Deno.test(
  "masks that are GIFs of other names in folders of other names are numpy's, and those of 0 and 255 are two classes",
  inFolder((folder) => {
    const seenByNumpy = JSON.parse(python(MASKS, folder)) as number[][][];
    const named = { data_type: "imagepairs", features: ["scans"], targets: ["truth"] };
    const { train } = open(folder, named, -100);
    assertEquals([train.facts.outputs, train.length], [2, 12]);
    assertEquals(labelsOf(train), seenByNumpy.flat(2));
    assertStringIncludes(
      refusal(() => open(folder, {}, -100)),
      "named as --features IMAGE_FOLDERS --targets LABELS",
    );
    python(
      `import glob, sys, numpy as np
from PIL import Image
import os
os.mkdir(sys.argv[1] + "/ends")
for i, path in enumerate(sorted(glob.glob(sys.argv[1] + "/truth/*"))):
    Image.fromarray((np.arange(24 * 33).reshape(24, 33) % (2 if i else 3) * (255 if i else 127.5)).astype("u1")).save(path[:-3] + "png")
    Image.fromarray((np.arange(24 * 33).reshape(24, 33) % 2 * 255).astype("u1")).save(path[:-3].replace("truth", "ends") + "png")
    os.remove(path)
print(0)`,
      folder,
    );
    const { train: three, notes } = open(folder, named, -100);
    assertSentence("extensions/imagepairs/tests/imagepairs: classes values files", notes);
    assertEquals([...new Set(labelsOf(three))].sort(), [0, 1, 2]);
    // Where it is known that there are three, masks that lack the middle one are no others.
    const { train: ends } = open(folder, { ...named, targets: ["ends"] }, -100, { output_size: 3 });
    assertEquals([...new Set(labelsOf(ends))].sort(), [0, 2]);
    const gif = Uint8Array.from(
      atob("R0lGODlhAQABAIAAAAAAAP///yH5BAAAAAAALAAAAAABAAEAAAICRAEAOw=="),
      (c) => c.charCodeAt(0),
    );
    for (let cut = 6; cut < gif.length; cut++) damagedIsTold(gif.subarray(0, cut));
    for (let at = 6; at < gif.length; at++) damagedIsTold(gif.with(at, 255 - gif[at]));
  }),
);

const labelsOf = (source: Source) =>
  scope(() => [
    ...toNumbers(batchOf(source, plainPart(Array.from({ length: source.length }, (_, i) => i))).target),
  ]);

/** A sentence or numbers, never another error. */
function damagedIsTold(file: Uint8Array): void {
  try {
    const header = gifHeader(file);
    if (header && header.width * header.height < 1e6) {
      gifNumbers(file, header, new Int32Array(header.width * header.height));
    }
  } catch (error) {
    assert(error instanceof BadSample, `${error}`);
  }
}

/** Pairs of several sizes, and what torchvision makes of them at 20 x 28. */
const SIZES = `
import json, os, sys
import numpy as np, torch
from PIL import Image
from torchvision.transforms import v2
from torchvision import tv_tensors
root, r, seen = sys.argv[1], np.random.default_rng(5), []
for folder in ("images", "masks"): os.makedirs(f"{root}/{folder}")
resize = v2.Resize((20, 28), interpolation=v2.InterpolationMode.BICUBIC, antialias=True)
for i in range(6):
    h, w = (int(n) for n in r.integers(16, 60, 2))
    label = np.kron(r.integers(0, 3, (4, 5)), np.ones((16, 13)))[:h, :w].astype("u1")
    picture = (r.random((h, w, 3)) * 255).astype("u1")
    Image.fromarray(picture).save(f"{root}/images/{i}.png")
    Image.fromarray(label).save(f"{root}/masks/{i}.png")
    image, mask = resize(Image.fromarray(picture), tv_tensors.Mask(torch.tensor(label)))
    seen.append([np.moveaxis(np.array(image), 2, 0).flatten().tolist(), mask.flatten().tolist()])
print(json.dumps(seen))
`;

Deno.test(
  "pairs of several sizes come to one by torchvision's resize, images bicubic and masks by the nearest, and else are refused",
  inFolder((folder) => {
    const theirs = JSON.parse(python(SIZES, folder)) as [number[], number[]][];
    assertSentence("extensions/imagepairs/tests/imagepairs: several sizes", refusal(() => open(folder)), {
      folder,
    });
    const sized = (augment: string) => {
      const opened = open(folder, { augment }, -100);
      return transformed(opened, { data: { ...opened.data, normalise: "none" }, seed: 3, quiet: true }).train;
    };
    const { input, target } = batchOf(
      sized("resize((20, 28), interpolation=bicubic)"),
      plainPart([0, 1, 2, 3, 4, 5]),
    );
    assertEquals([input.shape, target.shape], [[6, 3, 20, 28], [6, 20, 28]]);
    assertEquals([...toNumbers(target)], theirs.flatMap(([, mask]) => mask));
    const image = theirs.flatMap(([image]) => image);
    assertEquals(Array.from(toNumbers(input), (value) => Math.round(255 * value)), image);
    input.free();
    target.free();
    // Drawn boxes are one for both: where a picture is its label's grey, it stays so.
    python(
      `import sys, numpy as np
from PIL import Image
for i in range(6):
    label = np.array(Image.open(f"{sys.argv[1]}/masks/{i}.png"))
    Image.fromarray(np.stack([label * 40] * 3, 2)).save(f"{sys.argv[1]}/images/{i}.png")
print(0)`,
      folder,
    );
    const { labels, red } = seen(
      sized("random_crop(16), horizontal_flip, resize((24, 30), interpolation=nearest)"),
    );
    assertEquals(red, labels);
    python(
      `import sys, numpy as np\nfrom PIL import Image
Image.fromarray(np.zeros((9, 9), "u1")).save(sys.argv[1] + "/masks/2.png")\nprint(0)`,
      folder,
    );
    assertStringIncludes(
      refusal(() => seen(sized("resize((20, 28))"))),
      sentenceNamed("extensions/imagepairs/tests/imagepairs: another size than its image"),
    );
  }),
);
