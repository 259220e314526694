// MNIST from idx files: the same numbers as torchvision's reader, and a sentence for everything that can be wrong.
import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { gzipSync } from "node:zlib";
import { openData } from "../../../../../core/data/open/open.ts";
import { reader as mnist } from "../../../../../core/data/formats/mnist/mnist.ts";
import { batchOf, plainPart, type Source } from "../../../../../core/data/source/source.ts";
import { transformed } from "../../../../../core/data/transforms/apply.ts";
import { UserError } from "../../../../../core/base/errors.ts";
import { readBytes, toNumbers } from "../../../../../ffi/make.ts";
import { scope } from "../../../../../ffi/tensor.ts";
import { refusedData } from "../../opened.ts";
import { useLibtorch } from "../../../../libtorch.ts";
import { inFolder, python } from "../../../checkpoint/python.ts";
import { range, settings } from "../../tables/help.ts";
import { sentenceNamed } from "../../../../sentences.ts";

useLibtorch();

/** An idx file with the values 0, 1, 2, ... below `modulus`. */
function idx(dims: number[], modulus = 256, magic = 0x0800 + dims.length): Uint8Array {
  const count = dims.reduce((a, b) => a * b, 1);
  const file = new Uint8Array(4 + 4 * dims.length + count);
  const view = new DataView(file.buffer);
  [magic, ...dims].forEach((value, i) => view.setUint32(4 * i, value));
  for (let i = 0; i < count; i++) file[4 + 4 * dims.length + i] = i % modulus;
  return file;
}

type Files = Record<string, Uint8Array>;

const train: Files = {
  "train-images-idx3-ubyte": idx([20, 4, 5]),
  "train-labels-idx1-ubyte": idx([20], 10),
};
const test: Files = { "t10k-images-idx3-ubyte": idx([6, 4, 5]), "t10k-labels-idx1-ubyte": idx([6], 10) };

function open(folder: string, files: Files, data: Parameters<typeof settings>[0]["data"] = {}, outputs = 0) {
  Deno.mkdirSync(folder, { recursive: true });
  for (const [name, bytes] of Object.entries(files)) Deno.writeFileSync(`${folder}/${name}`, bytes);
  const config = settings({ data: { data_path: folder, ...data }, model: { output_size: outputs } });
  return transformed(mnist.open({ ...config, training: { ...config.training, seed: 1 } }), {
    data: config.data,
    seed: 1,
  });
}

const labels = (source: Source) =>
  scope(() => [...toNumbers(batchOf(source, plainPart(range(0, source.length))).target)]);

Deno.test(
  "torchvision's MNIST with ToTensor and Normalize gives the same bits, for both halves",
  inFolder((folder) => {
    python(
      `
import sys, os, numpy as np, torch
from torchvision import datasets, transforms
root = sys.argv[1]; raw = root + "/MNIST/raw"; os.makedirs(raw)
rng = np.random.default_rng(0)
for half, n in (("train", 50), ("t10k", 20)):
    images = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8); labels = rng.integers(0, 10, n, dtype=np.uint8)
    with open(f"{raw}/{half}-images-idx3-ubyte", "wb") as f: f.write(np.array([0x803, n, 28, 28], ">u4").tobytes() + images.tobytes())
    with open(f"{raw}/{half}-labels-idx1-ubyte", "wb") as f: f.write(np.array([0x801, n], ">u4").tobytes() + labels.tobytes())
t = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
for half, n in (("train", 50), ("t10k", 20)):
    d = datasets.MNIST(root, train=half == "train", transform=t)
    x = torch.stack([d[i][0] for i in range(n)]); y = torch.tensor([d[i][1] for i in range(n)])
    open(f"{root}/{half}.x", "wb").write(x.numpy().tobytes()); open(f"{root}/{half}.y", "wb").write(y.numpy().tobytes())
`,
      folder,
    );
    const { train, val } = open(folder, {});
    for (const [half, source] of [["train", train], ["t10k", val!]] as const) {
      scope(() => {
        const { input, target } = batchOf(source, plainPart(range(0, source.length)));
        assertEquals([input.shape.slice(1), input.dtype, target.dtype], [[1, 28, 28], "f32", "i64"]);
        assert(equal(readBytes(input), Deno.readFileSync(`${folder}/${half}.x`)), `images of ${half}`);
        assert(equal(readBytes(target), Deno.readFileSync(`${folder}/${half}.y`)), `labels of ${half}`);
      });
      assertEquals(source.facts, {
        task: "classification",
        input: { shape: [1, 28, 28], dtype: "f32" },
        outputs: 10,
      });
    }
  }),
);

const equal = (a: Uint8Array, b: Uint8Array) =>
  a.length === b.length && a.every((value, i) => value === b[i]);

for (const place of ["", "/raw", "/MNIST/raw", "/FashionMNIST/raw"]) {
  Deno.test(
    `files in DIR${place} are found, plain and gzipped`,
    inFolder((folder) => {
      const zipped = Object.fromEntries(
        Object.entries({ ...train, ...test }).map((
          [name, bytes],
        ) => [`${name}.gz`, new Uint8Array(gzipSync(bytes))]),
      );
      for (const [i, files] of [{ ...train, ...test }, zipped].entries()) {
        const root = `${folder}/${i}`;
        open(`${root}${place}`, files);
        const { train, val } = open(root, {});
        assertEquals([train.length, val!.length, train.input.shape], [20, 6, [1, 4, 5]]);
        assertEquals(labels(train), range(0, 20).map((i) => i % 10));
      }
    }),
  );
}

Deno.test(
  "without test files a share of the training files is held out, and no sample is on both sides",
  inFolder((folder) => {
    const { train: left, val } = open(folder, train, { validation_split: 0.2 });
    const pixels = (source: Source) =>
      scope(() => [...toNumbers(batchOf(source, plainPart(range(0, source.length))).input)]);
    assertEquals([left.length, val!.length], [16, 4]);
    const first = (source: Source) => pixels(source).filter((_, i) => i % 20 === 0);
    assertEquals(
      new Set([...first(left), ...first(val!)]).size,
      new Set(first(open(folder, {}, { val_samples: 0 }).train)).size,
    );
    assertEquals(open(folder, {}, { val_samples: 0 }).val, null);
    assertEquals(open(folder, {}, { validation_split: 0 }).val, null);
  }),
);

Deno.test(
  "train_samples and val_samples are the most that is used, a random choice of the files",
  inFolder((folder) => {
    const { train: few, val } = open(folder, { ...train, ...test }, { train_samples: 5, val_samples: 3 });
    assertEquals([few.length, val!.length], [5, 3]);
    assertNotEquals(labels(few), [0, 1, 2, 3, 4]);
    const split = open(`${folder}/split`, train, { train_samples: 5, val_samples: 2, validation_split: 0.5 });
    assertEquals([split.train.length, split.val!.length], [5, 2]);
  }),
);

Deno.test(
  "more classes than ten are taken when they are announced",
  inFolder((folder) => {
    const files = { ...train, "train-labels-idx1-ubyte": idx([20], 15) };
    assertEquals(open(folder, files, {}, 15).train.facts.outputs, 15);
  }),
);

const IMAGES = "train-images-idx3-ubyte", LABELS = "train-labels-idx1-ubyte";
const bad: [string, Files, string[]][] = [
  ["an empty folder", {}, ["No MNIST in ", `looked for ${IMAGES}`, "MNIST/raw", "The folder is empty."]],
  ["a folder of other things", { "ice.nc": new Uint8Array(3) }, ["Found there: ice.nc."]],
  ["images without labels", { [IMAGES]: train[IMAGES] }, [IMAGES, `but ${LABELS} is not`]],
  ["an empty file", { ...train, [IMAGES]: new Uint8Array(0) }, [IMAGES, "is empty"]],
  ["a truncated file", { ...train, [IMAGES]: train[IMAGES].slice(0, 300) }, [
    sentenceNamed("core/data/formats/mnist/mnist: truncated bytes expected"),
  ]],
  ["a truncated header", { ...train, [IMAGES]: train[IMAGES].slice(0, 9) }, [
    "16 bytes expected for its header, 9 found",
  ]],
  ["bytes too many", { ...train, [LABELS]: new Uint8Array([...train[LABELS], 0]) }, [
    "28 bytes expected",
    "29 found",
  ]],
  ["no samples", { ...train, [IMAGES]: idx([0, 28, 28]) }, ["holds no images", "0 x 28 x 28"]],
  ["another format", { ...train, [IMAGES]: new TextEncoder().encode("PK\x03\x04 and more of it") }, [
    sentenceNamed("core/data/formats/mnist/mnist: idx file images"),
  ]],
  ["a file of three bytes", { ...train, [IMAGES]: new Uint8Array(3) }, ["begins with 3 bytes only"]],
  ["labels in place of images", { ...train, [IMAGES]: train[LABELS] }, ["0x00000801 (idx labels)"]],
  ["a truncated gzip file", {
    [`${IMAGES}.gz`]: new Uint8Array(gzipSync(train[IMAGES])).slice(0, 60),
    [LABELS]: train[LABELS],
  }, [
    sentenceNamed("core/data/formats/mnist/mnist: damaged truncated gzip", { IMAGES }),
  ]],
  ["labels and images of different count", { ...train, [LABELS]: idx([19], 10) }, [
    "has 20 images, but ",
    "has 19 labels",
  ]],
  ["a label out of range", { ...train, [LABELS]: idx([20], 12) }, [
    sentenceNamed("core/data/formats/mnist/mnist: label sample counted"),
    "--output-size",
  ]],
  ["a gzip file that would fill the memory", {
    ...train,
    "train-images-idx3-ubyte": gzipSync(idx([2000, 100, 100], 1)),
  }, ["unpacks to more than 200 times its size", "gunzip"]],
  ["test images of another size", { ...train, ...test, "t10k-images-idx3-ubyte": idx([6, 8, 8]) }, [
    "images of 8 x 8, but ",
    "of 4 x 5",
  ]],
];

for (const [what, files, sentences] of bad) {
  Deno.test(
    `refused: ${what}`,
    inFolder((folder) => {
      const error = assertThrows(() => open(folder, files), UserError);
      assertEquals(error.kind, "data");
      for (const sentence of sentences) assert(error.message.includes(sentence), error.message);
    }),
  );
}

Deno.test(
  "refused: a file that can't be read, a folder that is not there, a file in place of the folder, no path",
  inFolder((folder) => {
    // Reading the memory of a process at address 0 fails for every user, root included.
    Deno.symlinkSync("/proc/self/mem", `${folder}/${IMAGES}`);
    const refused = (path: string) =>
      assertThrows(() => {
        const config = settings({ data: { data_path: path } });
        openData({ ...config.data, type: "mnist" }, config.training, config.model);
      }, UserError);
    Deno.writeFileSync(`${folder}/${LABELS}`, train[LABELS]);
    assert(
      refused(folder).message.includes(`${IMAGES} can't be read: Input/output error`),
      refused(folder).message,
    );
    assert(refused(`${folder}/nowhere`).message.includes("There is no such folder."));
    assert(refused(`${folder}/${LABELS}`).message.includes("That is a file: give the folder it is in."));
    assertEquals(refused("").kind, "usage");
    assert(refused("").message.includes("--data-path"));
  }),
);

Deno.test(
  "auto takes a folder with one of its files for MNIST",
  inFolder((folder) => {
    Deno.writeFileSync(`${folder}/train-images-idx3-ubyte`, new Uint8Array(0));
    assert(refusedData({ data_path: folder }).message.includes("train-labels-idx1-ubyte is not"));
  }),
);
