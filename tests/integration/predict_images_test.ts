// Predictions of images: each has its path, the class's name and how probable it is, in class folders or without them.
import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { join } from "@std/path";
import { python } from "../core/checkpoint/python.ts";
import { writtenBy } from "../core/data/formats/written.ts";
import { inTemp, run, succeed } from "./program.ts";

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
