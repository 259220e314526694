// Images in class folders as a source: torchvision's bits, the split, and a sentence for what does not fit.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { createHash } from "node:crypto";
import { join } from "paths";
import type { Config } from "../../../../../core/settings/settings.ts";
import { reader as imagefolder } from "../../../../../core/data/formats/imagefolder/imagefolder.ts";
import { imagefolder as format } from "../../../../../core/data/formats/imagefolder/format.ts";
import { batchOf, plainPart, type Source } from "../../../../../core/data/source/source.ts";
import { UserError } from "../../../../../core/base/errors.ts";
import { readBytes } from "../../../../../ffi/make.ts";
import { scope } from "../../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../../libtorch.ts";
import { askPeer } from "../../../../peer.ts";
import { inFolder } from "../../../checkpoint/python.ts";
import { all, refusal } from "../../tables/columns_help.ts";
import { range, settings } from "../../tables/help.ts";
import { assertSentence } from "../../../../sentences.ts";

useLibtorch();
await imagefolder.prepare!({ data_path: "", external_files: false });
const looksLikeImages = format.folder!.detect;

type Sets = Record<string, readonly (readonly [height: number, width: number, name: string])[]>;

const write = (folder: string, sets: Sets) => askPeer("data/images.py", { what: "classes", folder, sets });

const named = (count: number, ending = "jpg", [height, width] = [12, 17]) =>
  range(0, count).map((i) => [height, width, `${i}.${ending}`] as const);

function open(
  folder: string,
  data: Partial<Config["data"]> = {},
  model: Partial<Config["model"]> = {},
) {
  const config = settings({ data: { data_path: folder, ...data }, model });
  return imagefolder.open({ ...config, training: { ...config.training, seed: 1 } });
}

const labels = (source: Source) => all(source, "target");

const pixelsHash = (source: Source) =>
  scope(() => {
    const { input } = batchOf(source, plainPart(range(0, source.length)));
    return createHash("sha256").update(readBytes(input)).digest("hex");
  });

Deno.test(
  "all samples have torchvision's labels and the bits of its ToTensor, JPEG, PNG and WebP together",
  inFolder(async (folder) => {
    await write(folder, {
      cat: named(5),
      "dog/young": named(3, "png"),
      eel: named(4, "webp"),
      fox: named(6, "JPEG"),
    });
    const { train, val } = open(folder, { val_samples: 0 });
    const expected = await askPeer<{ shape: number[]; labels: number[]; sha256: string }>(
      "data/images.py",
      { what: "tensors", folder },
    );
    assertEquals(val, null);
    assertEquals([train.length, ...train.input.shape], expected.shape);
    assertEquals(train.facts, {
      task: "classification",
      input: { shape: [3, 12, 17], dtype: "f32" },
      outputs: 4,
    });
    assertEquals(labels(train), expected.labels);
    assertEquals(pixelsHash(train), expected.sha256);
    assertEquals(looksLikeImages(folder), true);
  }),
);

Deno.test(
  "without folders for each half the split is seeded, and no image is in both",
  inFolder(async (folder) => {
    await write(folder, { cat: named(20), dog: named(20) });
    const { train, val } = open(folder, { validation_split: 0.25 });
    assertEquals([train.length, val!.length], [30, 10]);
    const ids = [...train.indices!, ...val!.indices!].sort((a, b) => a - b);
    assertEquals(ids, range(0, 40));
    assertEquals(labels(val!), [...val!.indices!].map((id) => id < 20 ? 0 : 1));
    const few = open(folder, { validation_split: 0.25, train_samples: 7, val_samples: 3 });
    assertEquals([few.train.length, few.val!.length], [7, 3]);
    assertSentence("core/data/formats/imagefolder/imagefolder: used images because", few.notes);
  }),
);

Deno.test(
  "folders of each half are taken as they are, and a class has training's number in both",
  inFolder(async (folder) => {
    await write(folder, {
      "train/ant": named(3),
      "train/bee": named(2),
      "train/cow": named(2),
      "val/bee": named(2),
      "val/cow": named(1),
    });
    const { train, val, notes } = open(folder);
    assertEquals(labels(train), [0, 0, 0, 1, 1, 2, 2]);
    assertEquals(labels(val!), [1, 1, 2]);
    assert(notes.some((note) => note.endsWith("has no images of 1 of 3 classes: ant")), notes.join("\n"));
    assertEquals(looksLikeImages(folder), true);
    Deno.renameSync(join(folder, "val/cow"), join(folder, "val/crow"));
    assertMatch(
      refusal(() => open(folder)),
      /val has 1 class folder that .+train has not: crow; it lacks ant, cow\. The folders of both must have the same names, or --output-size the number of all/,
    );
    assertMatch(refusal(() => open(folder, {}, { output_size: 3 })), /has 1 class folder that/);
    // A model with a score for each has room for it, and numbers them as a folder of all would.
    Deno.renameSync(join(folder, "val/crow"), join(folder, "val/auk"));
    const roomy = [open(folder, {}, { output_size: 9 }), open(folder, {}, { name: "of_nine.pt2" })];
    assertEquals(roomy.map(({ train }) => labels(train)), [[0, 0, 0, 2, 2, 3, 3], [0, 0, 0, 2, 2, 3, 3]]);
    assertEquals(roomy.map(({ val }) => labels(val!)), [[1, 2, 2], [1, 2, 2]]);
    assertEquals(roomy.map(({ train }) => train.facts.outputs), [9, 4]);
    assertEquals(roomy[0].train.names, ["ant", "auk", "bee", "cow"]);
    assertEquals(open(folder, { val_samples: 0 }).val, null);
  }),
);

Deno.test(
  "images of several sizes need a crop, and the sentence names two of them and the flags",
  inFolder(async (folder) => {
    await write(folder, { cat: named(2), dog: named(1, "png", [30, 20]) });
    const flags = { val_samples: 0 };
    assertMatch(
      refusal(() => open(folder, flags)),
      /^The images have several sizes: .+\/cat\/0\.jpg is 17 wide and 12 high, .+\/dog\/0\.png is 20 wide and 30 high; a batch needs them in one\. Add --resize 256 --centre-crop 224/,
    );
    assertMatch(
      refusal(() => open(folder, { ...flags, resize: 8 })),
      /add --centre-crop 8, or --random-crop 8/,
    );
    assertMatch(
      open(folder, { ...flags, resize: 8, centre_crop: 8 }).train.describe(),
      /3 images of various sizes/,
    );
  }),
);

Deno.test(
  "an image that can't be read ends the run with its path, or is replaced by the next",
  inFolder(async (folder) => {
    await write(folder, { cat: named(40), dog: named(2) });
    const path = join(folder, "cat/0.jpg"); // the first in order, and so looked at when the data is opened
    Deno.truncateSync(path, 200);
    assertMatch(
      refusal(() => open(folder, { val_samples: 0 })),
      /cat\/0\.jpg is cut off before its picture begins/,
    );
    const { train } = open(folder, { val_samples: 0, bad_samples: "skip" });
    assertEquals(labels(train).length, 42);
    await write(folder, { cat: named(1) });
    const late = open(folder, { val_samples: 0 }).train;
    const whole = Deno.statSync(path).size;
    Deno.truncateSync(path, whole - 20);
    assertMatch(
      refusal(() => labels(late)),
      /^Sample 0 \(.+\/cat\/0\.jpg\) is cut off before the end of its picture, after [\d,]+ bytes\. Repair it, or/,
    );
  }),
);

Deno.test(
  "a model with fewer outputs than there are classes is refused, and one with more is not",
  inFolder(async (folder) => {
    await write(folder, { cat: named(2), dog: named(2), eel: named(2) });
    const error = assertThrows(() => open(folder, {}, { output_size: 2 }), UserError);
    assertMatch(error.message, /has 3 classes, but model\.output_size \(--output-size\) is 2/);
    assertEquals(open(folder, {}, { output_size: 5 }).train.facts.outputs, 5);
  }),
);
