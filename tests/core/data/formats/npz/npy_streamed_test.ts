// npy and npz read a sample at a time: the numbers that memory has, which are numpy's.
import { assert, assertEquals, assertRejects } from "@std/assert";
import { UserError } from "../../../../../core/base/errors.ts";
import { useLibtorch } from "../../../../libtorch.ts";
import { inFolder } from "../../../checkpoint/python.ts";
import { alike, layouts, numbers, open, refusedReading, written } from "../../streamed.ts";
import { assertSentence, sentenceNamed } from "../../../../sentences.ts";

useLibtorch();

Deno.test(
  "npz: every type and byte order, alone and joined with others",
  inFolder(async (folder) => {
    written(
      folder,
      `
for t in "?bBhHiIqQefd":
    for order in "<>":
        a = (r.normal(size=(13, 5)) * 50).astype(t).astype(np.dtype(t).newbyteorder(order))
        np.savez(f"{np.dtype(t).name}{'big' if order == '>' else ''}.npz", x=a, z=np.arange(13.0), y=r.normal(size=13))
wide = np.array([2**53 + 1, 2**62 + 2**38 + 1, -2**63, 2**63 - 1, 2**24 + 1, 0, 5, -7])
np.savez("exact.npz", x=wide, z=wide.astype("u8"), y=np.arange(8.0))`,
    );
    const names = [...Deno.readDirSync(folder)].map(({ name }) => name);
    assertEquals(names.length, 2 * 12 + 1);
    for (const name of names) {
      for (const features of [["x"], ["x", "z"], ["z", "x"]]) {
        await alike(`${folder}/${name}`, { data: { features, targets: ["y"] } });
      }
    }
  }),
);

Deno.test(
  "npy: a folder of maps, channels first and last, has numpy's values in numpy's places",
  inFolder(async (folder) => {
    const expected = written(
      folder,
      `
a = r.normal(size=(12, 3, 8, 9)).astype("f4"); b = r.integers(0, 255, (12, 8, 9, 3)).astype("u1"); c = r.normal(size=(12, 8, 9))
for name, x in dict(a=a, b=b, c=c, y=np.arange(12)[::-1] * 0.5).items(): np.save(name, x)
print(json.dumps(np.concatenate([a, b.transpose(0, 3, 1, 2), c[:, None]], 1).astype("f4").reshape(12, -1).tolist()))`,
    );
    const { train, notes } = await alike(folder);
    assertSentence("core/data/formats/npz/npy_streamed: shape taken images", notes);
    assertEquals(train.input.shape, [7, 8, 9]);
    assertEquals(numbers(train)[0], [...train.indices!].flatMap((row) => expected[row]));
    await alike(folder, { data: { features: ["b"], targets: ["y"] } });
  }),
);

Deno.test(
  "npy: neighbouring columns of a table are read at once, and its target without the rest",
  inFolder(async (folder) => {
    written(
      folder,
      `np.save("t.npy", r.normal(size=(40, 6)).astype(">f8")); np.save("f.npy", np.arange(240).reshape(40, 6) % 7)`,
    );
    const { train } = await alike(`${folder}/t.npy`);
    assertEquals(layouts(train), ["file"]);
    const apart = await alike(`${folder}/t.npy`, { data: { features: ["0", "1", "4"], targets: ["2"] } });
    assertEquals(layouts(apart.train), ["file", "file"]);
    await alike(`${folder}/f.npy`, { training: { loss: "auto" } });
    await alike(`${folder}/f.npy`, { data: { features: ["1"], targets: ["5", "0"] } });
  }),
);

Deno.test(
  "what has no rows in place is refused with what to write instead, and taken into memory where that is left open",
  inFolder(async (folder) => {
    written(
      folder,
      `
x = r.normal(size=(10, 3)); y = np.arange(10.0)
np.savez_compressed("packed.npz", x=x, y=y); np.savez("fortran.npz", x=np.asfortranarray(x), y=y)
np.savetxt("t.csv", x, delimiter=",")`,
    );
    const because = async (name: string) =>
      (await assertRejects(() => open(`${folder}/${name}`, "no"), UserError)).message;
    assertSentence("core/data/formats/npz/npy_streamed: packed npz array", await because("packed.npz"), {
      folder,
    });
    assert((await because("fortran.npz")).includes('"x" is in Fortran order'));
    assert((await because("t.csv")).includes('"0" is text'), await because("t.csv"));
    for (const name of ["packed.npz", "fortran.npz", "t.csv"]) {
      assertEquals((await open(`${folder}/${name}`, "auto")).train.threaded, undefined);
    }
  }),
);

Deno.test(
  "NaN in features ends the run with the sample's number, or others are read in its place; a target's is left out",
  inFolder(async (folder) => {
    written(
      folder,
      `
x = np.arange(60.0).reshape(20, 3); x[7, 1] = np.nan; y = np.arange(20.0); y[3] = np.inf
np.savez("a.npz", x=x, y=np.arange(20.0)); np.savez("b.npz", x=x, y=y)`,
    );
    const { train } = await open(`${folder}/a.npz`, "no", { data: { val_samples: 0 } });
    const sentence = refusedReading(train, [6, 7]);
    assert(/^Sample 7 \(.*a\.npz\) has NaN or infinity/.test(sentence), sentence);
    const skipping = await open(`${folder}/a.npz`, "no", { data: { val_samples: 0, bad_samples: "skip" } });
    assertEquals(numbers(skipping.train, [6, 7, 8]), [[18, 19, 20, 24, 25, 26, 24, 25, 26], [6, 8, 8]]);
    assertEquals(skipping.train.passedOver!(), 1);
    await assertRejects(
      () => open(`${folder}/b.npz`, "no"),
      UserError,
      "NaN, infinite or missing in 1 of 20 samples",
    );
    const without = await open(`${folder}/b.npz`, "no", { data: { bad_samples: "skip", val_samples: 0 } });
    assertEquals([without.train.length, [...without.train.indices!].includes(3)], [19, false]);
  }),
);

Deno.test(
  "a file that becomes shorter while it is read, and one that another takes the place of, end with a sentence",
  inFolder(async (folder) => {
    written(folder, `np.savez("a.npz", x=r.normal(size=(500, 30)), y=np.arange(500.0))`);
    const path = `${folder}/a.npz`;
    const { train } = await open(path, "no", { data: { val_samples: 0 } });
    numbers(train, [0, 499]);
    Deno.truncateSync(path, 60_000);
    const sentence = refusedReading(train, [0, 499]);
    assert(sentence.startsWith(`${path} became shorter while it was being read: `), sentence);
    written(folder, `np.savez("b.npz", x=r.normal(size=(500, 30)), y=np.arange(500.0))`);
    const other = await open(`${folder}/b.npz`, "no", { data: { val_samples: 0 } });
    // Whoever opens it from now on, as loader threads do, finds another file.
    Deno.writeTextFileSync(`${folder}/b.npz`, "something else");
    const { openPipeline } = await import("../../../../../core/data/source/pipeline.ts");
    await assertRejects(
      async () => void await Promise.resolve(openPipeline(other.train.threaded!)),
      UserError,
      "was changed after training began",
    );
  }),
);

Deno.test(
  "a set that is larger than the memory is read from its file without being told to, and refused where it may not be",
  inFolder(async (folder) => {
    // A terabyte of which nothing is on the disk but the header and the last row.
    written(
      folder,
      `
rows, width = 1 << 20, 1 << 18
with open("x.npy", "wb") as f:
    np.lib.format.write_array_header_1_0(f, dict(descr="<f4", fortran_order=False, shape=(rows, width)))
    f.seek((rows - 1) * width * 4, 1); f.write(np.arange(width, dtype="<f4").tobytes())
np.save("y.npy", np.arange(rows) * 0.5)`,
    );
    const data = { val_samples: 0, train_samples: 1 << 20 };
    const { train, notes } = await open(folder, "auto", { data });
    const why = sentenceNamed("core/data/formats/npz/npy_streamed: features read file");
    assert(notes.some((note) => note.startsWith(why)), notes.join("\n"));
    const [input, target] = numbers(train, [train.length - 1]);
    assertEquals([input.length, input.at(-1), target[0]], [1 << 18, (1 << 18) - 1, ((1 << 20) - 1) / 2]);
    const error = await assertRejects(() => open(folder, "yes", { data }), UserError);
    assertEquals(error.kind, "memory");
  }),
);
