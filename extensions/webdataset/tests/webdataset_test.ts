// WebDataset's shards: images are those of a folder, arrays and numbers are those that Python wrote.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { detect } from "../../../core/data/open/formats.ts";
import { openImageDecoder } from "../../../core/data/images/reader.ts";
import { turboJpeg } from "../../../core/data/images/stored.ts";
import { useLibtorch } from "../../../tests/libtorch.ts";
import { inFolder, python } from "../../../tests/core/checkpoint/python.ts";
import { range } from "../../../tests/core/data/tables/help.ts";
import { alike, numbers, open } from "../../../tests/core/data/streamed.ts";
import { assertSentence } from "../../../tests/sentences.ts";

useLibtorch();

const SHARDS = `
import io, json, os, sys, tarfile, numpy as np
os.chdir(sys.argv[1])
r = np.random.default_rng(0)
def shard(name, samples, fmt=tarfile.GNU_FORMAT):
    with tarfile.open(name, "w", format=fmt) as t:
        for key, members in samples:
            for ending, value in members.items():
                if ending.endswith("npy"): b = io.BytesIO(); np.save(b, value); value = b.getvalue()
                elif isinstance(value, (dict, list)): value = json.dumps(value).encode()
                elif isinstance(value, (int, float, str)): value = str(value).encode()
                i = tarfile.TarInfo(f"{key}.{ending}"); i.size = len(value); t.addfile(i, io.BytesIO(value))
`;

/** The images' numbers from 0 to 1 by channel, row and column, and the classes' numbers. */
function decoded(classes: readonly (readonly string[])[]): number[][] {
  const decode = openImageDecoder(turboJpeg()), values: number[] = [];
  for (const path of classes.flat()) {
    const { data, shape: [channels, height, width], strides: steps } = decode(Deno.readFileSync(path));
    for (let c = 0; c < channels; c++) {
      for (let y = 0; y < height; y++) {
        for (let x = 0; x < width; x++) {
          values.push(Math.fround(Number(data[c * steps![0] + y * steps![1] + x * steps![2]]) / 255));
        }
      }
    }
  }
  return [values, classes.flatMap((paths, label) => paths.map(() => label))];
}

Deno.test(
  "images with classes, names or numbers are those of a folder of images, from one shard or many",
  inFolder(async (folder) => {
    python(
      `${SHARDS}
from PIL import Image
all = []
for c, name in enumerate(("cat", "dog", "eel")):
    os.makedirs(f"images/{name}")
    for i in range(5):
        path = f"images/{name}/{i}." + ("png" if i == 1 and False else "jpg")
        Image.fromarray(r.integers(0, 255, (20, 24, 3), dtype=np.uint8)).save(path)
        all.append((f"{'long/' * (30 if i == 2 else 0)}{name}/s{i}", {"jpg": open(path, "rb").read(), "cls": c, "json": {"kind": name, "size": c + 0.5 * i, "list": [1]}, "spec.npy": np.arange(3, dtype="f4") + c}))
for k in range(3): shard(f"part-{k:03d}.tar", all[5 * k:5 * k + 5], [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT][k])
shard("all.tar", all)`,
      folder,
    );
    const ids = range(0, 15), whole = { validation_split: 0, val_samples: 0 } as const;
    const ofFolder = decoded(
      ["cat", "dog", "eel"].map((name) => range(0, 5).map((i) => `${folder}/images/${name}/${i}.jpg`)),
    );
    for (const path of [`${folder}/all.tar`, `${folder}/part-{000..002}.tar`, `${folder}/*-*.tar`]) {
      assertEquals(detect(path), "webdataset", path);
      const { train } = await open(path, "auto", { data: whole, training: { loss: "auto" } });
      assertEquals(numbers(train, ids), ofFolder, path);
      assertEquals([train.facts.task, train.facts.outputs], ["classification", 3]);
    }
    const path = `${folder}/part-00{0..2}.tar`;
    const of = async (targets: string[]) => (await open(path, "auto", { data: { ...whole, targets } })).train;
    const byName =
      (await open(path, "auto", { data: { ...whole, targets: ["json.kind"] }, training: { loss: "auto" } }))
        .train;
    assertEquals([byName.names, numbers(byName, ids)], [["cat", "dog", "eel"], ofFolder]);
    const sizes = await of(["json.size", "spec"]);
    assertEquals([sizes.facts.task, sizes.facts.outputs], ["regression", 4]);
    assertEquals(numbers(sizes, [7])[1], [2, 1, 2, 3]);
    assertMatch(sizes.pathOf!(7), /part-001\.tar\/(long\/)+dog\/s2\.jpg$/);
    const { val } = await open(path, "auto", { training: { loss: "auto" } });
    assertEquals(val!.length, 4);
  }),
);

Deno.test(
  "arrays are features and targets, in memory or a sample at a time, of every type",
  inFolder(async (folder) => {
    const printed = python(
      `${SHARDS}
x = r.normal(size=(12, 2, 8, 8)).astype("f4"); y = x[:, :1] * 2; z = r.integers(0, 9, (12, 3)).astype(">i2")
print(json.dumps({name: [a.ravel().tolist() for a in values] for name, values in (("x", x), ("y", y), ("z", z))}))
for k in range(3): shard(f"a{k}.tar", [(f"{i:04d}", {"z.npy": z[i], "x.npy": x[i], "y.npy": y[i], "cls": i % 3}) for i in range(4 * k, 4 * k + 4)])`,
      folder,
    );
    const path = `${folder}/a{0..2}.tar`, values: Record<string, number[][]> = JSON.parse(printed);
    for (const [features, targets] of [["x", "y"], ["z", "y"]]) {
      const changes = { data: { features: [features], targets: [targets] }, model: { name: "unet" } };
      const { train } = await alike(path, changes), rows = [...train.indices!];
      const inOrder = [features, targets].map((name) => rows.flatMap((row) => values[name][row]));
      assertEquals(numbers(train), inOrder, features);
    }
    const { train } = await open(path, "yes", { data: { features: ["x"] }, training: { loss: "auto" } });
    assertEquals([train.facts.task, train.facts.outputs], ["classification", 3]);
  }),
);

Deno.test(
  "damaged and odd shards end in a sentence with the shard and the sample",
  inFolder(async (folder) => {
    python(
      `${SHARDS}
s = [(f"{i}", {"x.npy": np.zeros((3, 4), "f4"), "cls": i}) for i in range(4)]
shard("good.tar", s); good = open("good.tar", "rb").read()
open("cut.tar", "wb").write(good[:1700]); open("sum.tar", "wb").write(good[:1024 + 3] + b"?" + good[1028:]); open("empty.tar", "wb")
big = bytearray(good); big[124:136] = b"77777777777\\0"; big[148:156] = b"        "; big[148:156] = b"%06o\\0 " % sum(big[:512]); open("big.tar", "wb").write(big)
shard("lacks.tar", s[:2] + [("2", {"x.npy": np.zeros((3, 4), "f4")})])
shard("twice.tar", [("0", {"cls": 1, "CLS": 2})])
shard("shapes.tar", s[:2] + [("2", {"x.npy": np.zeros((3, 5), "f4"), "cls": 1})])
shard("types.tar", s[:2] + [("2", {"x.npy": np.zeros((4, 3), "f4"), "cls": 1})])
shard("words.tar", s[:2] + [("2", {"x.npy": np.zeros((3, 4), "f4"), "cls": "cat"})])
shard("json.tar", [("0", {"x.npy": np.zeros((3, 4), "f4"), "json": {"a": 1}}), ("1", {"x.npy": np.zeros((3, 4), "f4"), "json": "{"})])
with tarfile.open("plain.tar", "w") as t: t.add("good.tar", "README")`,
      folder,
    );
    const refused = async (name: string): Promise<string> => {
      try {
        const { train } = await open(`${folder}/${name}.tar`, "no", {
          data: { validation_split: 0, val_samples: 0 },
        });
        numbers(train);
      } catch (error) {
        assert(error instanceof UserError, String(error));
        assertEquals(error.kind, "data", error.message);
        return error.message;
      }
      throw new Error(`${name} is taken`);
    };
    assertMatch(await refused("cut"), /cut\.tar is damaged or cut off: its member \d .*Copy it again/);
    assertSentence("extensions/webdataset/tests/webdataset: member counted header", await refused("sum"));
    assertMatch(await refused("big"), /should end at 8589935103, and the file ends at/);
    assertMatch(await refused("empty"), /has no samples in it, but nothing/);
    assertMatch(await refused("plain"), /has no samples in it, but README: .*tar -xf/);
    assertMatch(await refused("lacks"), /lacks\.tar: the sample 2 \("2"\) has no member "cls"/);
    assertMatch(await refused("twice"), /the sample "0" has two members "cls"/);
    assertSentence("extensions/webdataset/tests/webdataset: bytes sample sample", await refused("shapes"));
    assertSentence("extensions/webdataset/tests/webdataset: types tar array", await refused("types"));
    assertSentence("extensions/webdataset/tests/webdataset: cls sample cat", await refused("words"));
    assertMatch(await refused("json"), /the member "json" of sample 1 \("1"\) is no JSON/);
    assertMatch(await refused("none-{0..3}"), /There is no .*none-0\.tar/);
  }),
);
