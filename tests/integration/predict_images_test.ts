// Predictions of images: each has its path, the class's name and how probable it is, in class folders or without them.
import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { python } from "../core/checkpoint/python.ts";
import { writtenBy } from "../core/data/formats/written.ts";
import { inTemp, run, succeed } from "./program.ts";
import { assertSentence } from "../sentences.ts";

/** Two classes, told apart by colour, and copies of all of them in one folder. */
const PHOTOS = `
import numpy, os, sys
from PIL import Image
os.chdir(sys.argv[1])
r = numpy.random.default_rng(0)
os.makedirs("new")
for c, name in enumerate(["cat, black", "dog"]):
    os.makedirs(f"photos/{name}")
    for i in range(9):
        pixels = r.integers(0, 90, (16, 16, 3), dtype=numpy.uint8)
        pixels[:, :, c] += 120
        for path in (f"photos/{name}/{i}.png", f"new/{c}{i}.png"): Image.fromarray(pixels).save(path)
open("new/notes.txt", "w").write("no image")
print("null")
`;

/** The csv as Python reads it. */
const READ = `
import csv, json, sys
print(json.dumps(list(csv.DictReader(open(sys.argv[1])))))
`;

/** A Parquet table as pyarrow reads it. */
const PARQUET = `
import json, pyarrow.parquet as pq
print(json.dumps(pq.read_table("own.parquet").to_pydict()))`;

type Row = Record<string, string>;

Deno.test("a csv of images names their files and classes; a flat folder and a single file give the same numbers", () =>
  inTemp(async (cwd) => {
    python(PHOTOS, cwd);
    const rows = (name: string): Row[] => JSON.parse(python(READ, join(cwd, name)));
    const model = ["--model=simple-convnet", "--device=cpu", "--threads=1", "--no-wandb", "--run-name=r"];
    await succeed(["train", ...model, "--epochs=2", "--batch-size=8", "--data-path=photos"], { cwd });
    const predict = ["predict", "checkpoints/r_latest.pt", "--batch-size=1"];
    await succeed([...predict, "--all", "--probabilities", "--out=own.csv"], { cwd });
    const own = rows("own.csv");
    assertEquals(own.length, 18);
    assertEquals(own[9].path, "photos/dog/0.png");
    assertEquals([own[0].target, own[17].target], ["cat, black", "dog"]);
    for (const row of own) {
      const shares = ["cat, black", "dog"].map((name) => Number(row[`probability_${name}`]));
      assertAlmostEquals(shares[0] + shares[1], 1, 1e-6);
      assertEquals(row.label, shares[0] >= shares[1] ? "cat, black" : "dog");
      assertAlmostEquals(Number(row.probability), Math.max(...shares), 1e-6);
    }
    await succeed([...predict, "--all", "--probabilities", "--out=own.parquet"], { cwd });
    const table = writtenBy(cwd, PARQUET) as unknown as Record<string, (string | number)[]>;
    assertEquals(Object.keys(table), Object.keys(own[0]));
    for (const [name, values] of Object.entries(table)) {
      const isText = ["split", "path", "label", "target"].includes(name);
      assertEquals(values, own.map((row) => isText ? row[name] : Math.fround(Number(row[name]))), name);
    }
    await succeed([...predict, "--data-path=new", "--out=new.csv"], { cwd });
    const found = rows("new.csv");
    assertEquals(found.map(({ path }) => path), own.map((_, i) => `new/${Math.floor(i / 9)}${i % 9}.png`));
    assertEquals(
      found.map(({ label, probability }) => [label, probability]),
      own.map(({ label, probability }) => [label, probability]),
    );
    assert(!("target" in found[0]));
    await succeed([...predict, "--data-path=new/13.png", "--out=one.csv"], { cwd });
    assertEquals(rows("one.csv"), [{ ...found[12], id: "0" }]);
    const { code, stderr } = await run(["train", ...model, "--data-path=new"], { cwd });
    assertEquals(code, 3);
    assertMatch(stderr, /put the images of each class into a folder/);
  }));

/** Images with a bright patch, and masks of it. */
const CELLS = `
import numpy, os, sys
from PIL import Image
os.chdir(sys.argv[1])
r = numpy.random.default_rng(0)
os.makedirs("cells/imgs/left"); os.makedirs("cells/masks/left")
for i in range(10):
    mask = numpy.zeros((24, 32), "u1")
    y, x = r.integers(2, 12, 2)
    mask[y:y + 10, x:x + 12] = 1
    image = (r.integers(0, 60, (24, 32, 3)) + 180 * mask[..., None]).astype("u1")
    name = f"left/{i}" if i % 2 else f"{i}"
    Image.fromarray(image).save(f"cells/imgs/{name}.png")
    Image.fromarray(255 * mask).save(f"cells/masks/{name}_mask.png")
print("null")
`;

/** How each map is stored, how large it is, and whether its classes are the likeliest of the model's. */
const MAPS = `
import json, numpy, os, sys
from PIL import Image
os.chdir(sys.argv[1])
likeliest, seen = numpy.load("own.npz")["prediction"].argmax(1), []
names = [name for _, _, names in os.walk("maps") for name in names]
for i, name in enumerate(["0", "2", "4", "6", "8", "left/1", "left/3", "left/5", "left/7", "left/9"]):
    with Image.open(f"maps/{name}.png") as picture: classes = numpy.array(picture)
    seen.append([picture.mode, list(classes.shape), bool((classes == likeliest[i]).all()), len(set(classes.flat))])
print(json.dumps([len(names), seen]))
`;

Deno.test("classes of pixels become a PNG beside each image's name, and data of another kind none", () =>
  inTemp(async (cwd) => {
    python(CELLS, cwd);
    const train =
      "train --model=unet --device=cpu --threads=1 --no-wandb --run-name=r --epochs=4 --batch-size=5 --lr=1e-2";
    await succeed([...train.split(" "), "--data-path=cells"], { cwd });
    const predict = ["predict", "checkpoints/r_best.pt"];
    const { stdout } = await succeed([...predict, "--all", "--out=maps/"], { cwd });
    assertMatch(stdout, /^Wrote label \[10, 24, 32\] of 10 samples to maps\/\.$/m);
    await succeed([...predict, "--all", "--out=own.npz"], { cwd });
    assertEquals(JSON.parse(python(MAPS, cwd)), [10, Array(10).fill(["P", [24, 32], true, 2])]);
    const again = await run([...predict, "--all", "--out=maps/"], { cwd });
    assertMatch(again.stderr, /maps\/ exists already/);
    const table =
      "train --model=mlp --data-type=synthetic --device=cpu --no-wandb --run-name=t --max-steps=1";
    await succeed(table.split(" "), { cwd });
    const { code, stderr } = await run(["predict", "checkpoints/t_latest.pt", "--out=other/"], { cwd });
    assertEquals(code, 2);
    assertSentence("integration/predict_images: folder classes none", stderr);
  }));
