// npz and npy: the numbers that numpy wrote, in every type and order, and a sentence for everything that can be wrong.
import { assert, assertAlmostEquals, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { batchOf, plainPart } from "../../../../../core/data/source/source.ts";
import { reader as npz } from "../../../../../core/data/formats/npz/npz.ts";
import { UserError } from "../../../../../core/base/errors.ts";
import { toNumbers } from "../../../../../ffi/make.ts";
import { liveTensors, scope } from "../../../../../ffi/tensor.ts";
import { refusedData } from "../../opened.ts";
import { useLibtorch } from "../../../../libtorch.ts";
import { inFolder, python } from "../../../checkpoint/python.ts";
import { all, type Changes, opener, refusal } from "../../tables/columns_help.ts";
import { assertSentence, sentenceNamed } from "../../../../sentences.ts";

useLibtorch();

const open = opener(npz.open);

/** Runs Python with numpy as np and the working folder `folder`. */
const numpy = (folder: string, code: string) =>
  python(
    `import os, sys, json, zipfile, numpy as np\nos.chdir(sys.argv[1])\nr = np.random.default_rng(0)\n${code}`,
    folder,
  );

const refused = (path: string, data: Changes = {}) => refusal(() => open(path, data));

const TYPES = ["?", "b", "B", "h", "H", "i", "I", "q", "Q", "e", "f", "d"];

Deno.test(
  "every type of number, byte order, memory order and compression gives numpy's values",
  inFolder((folder) => {
    const written = JSON.parse(numpy(
      folder,
      `
out = {}
y = np.arange(6) * 0.5
for t in "${TYPES.join("")}":
    for order in "<>":
        for layout in "CF":
            a = (r.normal(size=(6, 2, 3, 5)) * 50).astype(t).astype(np.dtype(t).newbyteorder(order), order=layout)
            for save in (np.savez, np.savez_compressed):
                name = f"{t}{'be' if order == '>' else 'le'}{layout}{save.__name__}.npz"
                save(name, x=a, y=y)
                out[name] = a.astype("f4").ravel().tolist()
print(json.dumps(out))`,
    )) as Record<string, number[]>;
    assertEquals(Object.keys(written).length, TYPES.length * 8);
    for (const [name, values] of Object.entries(written)) {
      const { train } = open(`${folder}/${name}`);
      assertEquals(train.input, { name: "features", shape: [2, 3, 5], dtype: "f32" }, name);
      assertEquals(all(train, "input"), values, name);
      assertEquals(all(train, "target"), [0, 0.5, 1, 1.5, 2, 2.5], name);
    }
  }),
);

Deno.test(
  "arrays are chosen by name and put side by side; the last one is the target unless told",
  inFolder((folder) => {
    numpy(
      folder,
      `np.savez("d.npz", a=np.arange(4.), b=np.arange(8).reshape(4, 2), c=np.arange(4) * 10., extra=np.zeros(9))`,
    );
    const path = `${folder}/d.npz`;
    const { train } = open(path, { features: ["b", "a"], targets: ["c"] });
    assertEquals(all(train, "input"), [0, 1, 0, 2, 3, 1, 4, 5, 2, 6, 7, 3]);
    assertEquals(all(train, "target"), [0, 10, 20, 30]);
    assertEquals(train.facts, { task: "regression", input: { shape: [3], dtype: "f32" }, outputs: 1 });
    assertEquals(train.describe(), `${path}: 3 features -> 1 number`);
    assertEquals(all(open(path, { features: ["a"], targets: ["c", "b"] }).train, "target").slice(3, 6), [
      10,
      2,
      3,
    ]);
    assert(refused(path).includes('the array "a" has 4 samples, but "extra" has 9'), refused(path));
    assertSentence("core/data/formats/npz/npz: array targets extra", refused(path, { targets: ["d"] }));
    for (const names of [{ features: ["a", "a"] }, { features: ["a"], targets: ["a"] }]) {
      assertEquals(assertThrows(() => open(path, names), UserError).kind, "usage");
    }
  }),
);

Deno.test(
  "the line of the data says what a model is to say: numbers, maps of them, classes or classes a pixel",
  inFolder((folder) => {
    numpy(
      folder,
      `
x = r.normal(size=(4, 3, 8, 8)); y = r.normal(size=(4, 8, 8))
np.savez("d.npz", x=x, map=y, other=y, one=np.arange(4.), kind=np.arange(4), kinds=(y > 0).astype("i4"))`,
    );
    const said = (...targets: string[]) =>
      open(`${folder}/d.npz`, { features: ["x"], targets }).train.describe().split(" -> ")[1];
    assertEquals([said("map"), said("map", "other")], ["maps of [1, 8, 8]", "maps of [2, 8, 8]"]);
    assertEquals([said("one"), said("kind"), said("kinds")], ["1 number", "4 classes", "2 classes a pixel"]);
  }),
);

Deno.test(
  "a folder of npy files is arrays, one npy file is a table with its target in the last column",
  inFolder((folder) => {
    numpy(
      folder,
      `
os.mkdir("d"); np.save("d/x.npy", np.arange(6.).reshape(3, 2)); np.save("d/y.npy", np.array([5., 6., 7.]))
np.save("t.npy", np.array([[1, 2, 5], [3, 4, 6]], ">f8", order="F")); np.save("v.npy", np.zeros(3))`,
    );
    const { train } = open(`${folder}/d`);
    assertEquals([all(train, "input"), all(train, "target")], [[0, 1, 2, 3, 4, 5], [5, 6, 7]]);
    const table = open(`${folder}/t.npy`).train;
    assertEquals([all(table, "input"), all(table, "target")], [[1, 2, 3, 4], [5, 6]]);
    assertEquals(all(open(`${folder}/t.npy`, { targets: ["0"] }).train, "input"), [2, 5, 4, 6]);
    assertSentence("core/data/formats/npz/npz: shape single array", refused(`${folder}/v.npy`));
  }),
);

Deno.test(
  "whole numbers of a folder of archives are known for such, and those that floats round are not passed off as others",
  inFolder((folder) => {
    numpy(
      folder,
      `
os.mkdir("d")
for i in range(2): np.savez(f"d/{i}.npz", id=2 ** 24 - 2 + np.arange(2 * i, 2 * i + 2), n=np.arange(2, dtype="i2"), x=np.ones(2), y=np.zeros(2))`,
    );
    const named = (features: string[], in_memory: "yes" | "no") =>
      open(`${folder}/d`, { features, targets: ["y"], in_memory }, {}, { name: "m.pt2" }).train;
    const columns = (train: ReturnType<typeof named>) =>
      train.facts.input.columns!.map(({ name, whole, large = false }) => [name, whole, large]);
    assertEquals(columns(named(["id", "n", "x"], "yes")), [["id", true, true], ["n", true, false], [
      "x",
      false,
      false,
    ]]);
    const { notes } = open(`${folder}/d`, { features: ["id", "n"], targets: ["y"] });
    assert(
      notes.some((note) => note.startsWith("id has whole numbers from 16,777,216 on")),
      notes.join("; "),
    );
    const read = named(["id", "n"], "no");
    assertEquals(columns(read), [["id", true, false], ["n", true, false]]);
    assertMatch(
      refusal(() => all(read, "input")),
      /"id" has 16777217/,
    );
    assertEquals(all(named(["n"], "no"), "input"), [0, 1, 0, 1]);
  }),
);

Deno.test(
  "images are [channels, height, width], whether numpy has their channels first, last or not at all",
  inFolder((folder) => {
    const [first] = JSON.parse(numpy(
      folder,
      `
x = r.integers(0, 256, (4, 8, 9, 3), dtype=np.uint8); y = np.arange(4)
np.savez("last.npz", x=x, y=y); np.savez("first.npz", x=x.transpose(0, 3, 1, 2), y=y); np.savez("none.npz", x=x[..., 0], y=y)
np.savez("masks.npz", x=x[..., 0], y=(x[..., 1] > 99))
print(json.dumps([x.transpose(0, 3, 1, 2).ravel().tolist()]))`,
    ));
    for (const name of ["last", "first"]) {
      const { train, notes } = open(`${folder}/${name}.npz`);
      assertEquals([train.input.shape, train.facts.outputs], [[3, 8, 9], 4]);
      assertEquals(all(train, "input"), first);
      assertEquals(notes.some((note) => note.includes("channels last")), name === "last");
    }
    assertEquals(open(`${folder}/none.npz`).train.input.shape, [1, 8, 9]);
    const masks = open(`${folder}/masks.npz`).train;
    assertEquals([masks.facts.task, masks.facts.outputs, masks.target], ["segmentation", 2, {
      name: "targets",
      shape: [8, 9],
      dtype: "i64",
    }]);
  }),
);

Deno.test(
  "whole numbers as the one target are classes, unless the loss or the model's output says they are a quantity",
  inFolder((folder) => {
    numpy(
      folder,
      `np.savez("d.npz", x=np.zeros((5, 2)), y=np.array([0, 2, 1, 2, 0], np.uint16), w=np.array([1., 0, 3, 1, 0]))`,
    );
    const path = `${folder}/d.npz`, chosen = { features: ["x"], targets: ["y"] };
    const { train, notes } = open(path, chosen);
    assertEquals([train.facts.task, train.facts.outputs, train.target.dtype], ["classification", 3, "i64"]);
    assertEquals(all(train, "target"), [0, 2, 1, 2, 0]);
    assertSentence("core/data/formats/npz/npz: target whole numbers", notes[0]);
    const quantity = open(path, chosen, { loss: "mse" });
    assertEquals([quantity.train.facts.task, quantity.train.target.dtype], ["regression", "f32"]);
    assert(quantity.notes[0].includes("taken as a quantity because the loss is mse"), quantity.notes[0]);
    assertEquals(open(path, { features: ["x"], targets: ["w"] }).train.facts.task, "regression");
    const asked = open(path, { features: ["x"], targets: ["w"] }, { loss: "cross_entropy" });
    assertEquals(asked.train.facts.outputs, 4);
  }),
);

Deno.test(
  "classes are from 0 to below a million, but for the one to ignore",
  inFolder((folder) => {
    numpy(
      folder,
      `np.savez("d.npz", x=np.zeros(4), low=np.array([0, 1, -1, 2]), high=np.array([0, 1, 2, 10**12]), sure=np.array([1, -100, 0, 1]))`,
    );
    const said = (name: string) => refused(`${folder}/d.npz`, { features: ["x"], targets: [name] });
    assertSentence("core/data/formats/npz/npz: low whole numbers", said("low"));
    assert(said("low").includes("it is -1") && said("low").includes("training.ignore_index"));
    assert(said("high").includes("in sample 3") && said("high").includes("it is 1000000000000"));
    const { train } = open(`${folder}/d.npz`, { features: ["x"], targets: ["sure"] });
    assertEquals([train.facts.outputs, all(train, "target")], [2, [1, -100, 0, 1]]);
  }),
);

Deno.test(
  "bad samples end the run with their field, number and first place, or are left out",
  inFolder((folder) => {
    numpy(
      folder,
      `
x = np.arange(20.).reshape(10, 2); x[3, 1] = np.nan; x[7, 0] = np.inf; y = np.arange(10.); y[3] = y[5] = np.nan
np.savez("d.npz", a=np.arange(10), x=x, y=y); np.savez("none.npz", x=x * np.nan, y=y)`,
    );
    const path = `${folder}/d.npz`;
    assertSentence("core/data/formats/npz/npz: array nan infinite", refused(path));
    const { train, val, notes } = open(path, { bad_samples: "skip", val_samples: 9, validation_split: 0.3 });
    assertEquals([...all(train, "target"), ...all(val!, "target")].sort(), [0, 1, 2, 4, 6, 8, 9]);
    assertEquals([train.length, val!.length], [5, 2]);
    assert(notes[0].startsWith("Left out 3 of 10 samples") && notes[0].includes("x (2), y (2)"), notes[0]);
    assert(refused(`${folder}/none.npz`, { bad_samples: "skip" }).includes("no sample is left"));
  }),
);

Deno.test(
  "the split is a function of the seed, no sample is on both sides, and bounds are upper bounds that are told",
  inFolder((folder) => {
    numpy(folder, `np.savez("d.npz", x=np.zeros((100, 3)), y=np.arange(100.))`);
    const ids = (seed: number, data: Changes = {}) => {
      const { train, val } = open(`${folder}/d.npz`, { val_samples: 1000, ...data }, { seed });
      return [all(train, "target"), all(val!, "target")];
    };
    const [train, val] = ids(1);
    assertEquals([train.length, val.length], [90, 10]);
    assertEquals(new Set([...train, ...val]).size, 100);
    assertEquals(ids(1), [train, val]);
    assert(ids(2)[1].join() !== val.join());
    const few = open(`${folder}/d.npz`, { train_samples: 7, val_samples: 2 });
    assertEquals([few.train.length, few.val!.length], [7, 2]);
    assert(few.notes[0].includes("Not used: 91 samples"), few.notes[0]);
  }),
);

Deno.test(
  "a batch is in the order asked for and leaves nothing behind",
  inFolder((folder) => {
    numpy(folder, `np.savez("d.npz", x=np.arange(8.).reshape(4, 2), y=np.arange(4.))`);
    const before = liveTensors();
    const { train } = open(`${folder}/d.npz`);
    assertEquals(liveTensors(), before + 2, "the two fields and nothing else");
    scope(() => assertEquals([...toNumbers(batchOf(train, plainPart([2, 0, 2])).input)], [4, 5, 0, 1, 4, 5]));
    assertEquals(liveTensors(), before + 2);
  }),
);

const BAD: [what: string, make: string, sentences: string[]][] = [
  ["a pickled array", `np.savez("bad.npz", x=np.array([{}, "a"], object), y=np.zeros(2))`, [
    sentenceNamed("core/data/formats/npz/npz: array holds python"),
  ]],
  ["text", `np.savez("bad.npz", x=np.array([["a", "b"]] * 2), y=np.zeros(2))`, [
    'the array "x" holds text in several dimensions',
  ]],
  ["complex numbers", `np.savez("bad.npz", x=np.zeros(2, complex), y=np.zeros(2))`, [
    "holds complex numbers",
  ]],
  ["records", `np.savez("bad.npz", x=np.zeros(2, [("a", "f4"), ("b", "i4")]), y=np.zeros(2))`, [
    "has records with named fields",
  ]],
  ["long doubles", `np.savez("bad.npz", x=np.zeros(2, np.longdouble), y=np.zeros(2))`, [
    'of the type "<f16"',
  ]],
  ["a single number", `np.savez("bad.npz", x=np.float64(3), y=np.zeros(2))`, ['"x" is a single number']],
  ["no samples", `np.savez("bad.npz", x=np.zeros((0, 3)), y=np.zeros(0))`, ["holds no samples"]],
  ["one array", `np.savez("bad.npz", x=np.zeros((4, 3)))`, ["leaves no array to learn from: it has x"]],
  ["an archive of other things", `zipfile.ZipFile("bad.npz", "w").writestr("a.txt", "hello")`, [
    "has no array in it",
  ]],
  ["maps of two sizes", `np.savez("bad.npz", a=np.zeros((2, 4, 4)), b=np.zeros((2, 5, 5)), y=np.zeros(2))`, [
    'the array "a" has the shape [2, 4, 4] and "b" [2, 5, 5]',
  ]],
  [
    "an archive cut short",
    `
np.savez("bad.npz", x=np.zeros((40, 3)), y=np.zeros(40)); os.truncate("bad.npz", 900)`,
    ["is a truncated zip"],
  ],
  ["an empty file", `open("bad.npz", "w").close()`, ["bad.npz is empty"]],
  ["another format", `open("bad.npz", "w").write("a,b,c\\n1,2,3\\n")`, [
    "is no npy file: it doesn't begin with",
  ]],
  [
    "a damaged member",
    `
np.savez("bad.npz", x=np.arange(1000.), y=np.zeros(1000)); b = bytearray(open("bad.npz", "rb").read()); b[500] ^= 1
open("bad.npz", "wb").write(b)`,
    ['the checksum of "x.npy" is wrong'],
  ],
  [
    "a damaged deflated member",
    `
np.savez_compressed("bad.npz", x=r.normal(size=1000), y=np.zeros(1000)); b = bytearray(open("bad.npz", "rb").read())
b[300:310] = b"0123456789"; open("bad.npz", "wb").write(b)`,
    ["x.npy"],
  ],
  ["a zip bomb", `np.savez_compressed("bad.npz", x=np.zeros((10**6, 10)), y=np.zeros(10**6))`, [
    'the entry "x.npy" would unpack ',
  ]],
  [
    "a header that promises more than there is",
    `
np.save("x.npy", np.zeros((4, 3))); b = open("x.npy", "rb").read().replace(b"(4, 3)", b"(9, 3)"); open("bad.npz", "wb").write(b)`,
    [
      "is truncated: 344 bytes expected for [9, 3] of f64, 224 found",
    ],
  ],
  [
    "bytes behind the numbers",
    `
np.save("x.npy", np.zeros((4, 3))); open("bad.npz", "wb").write(open("x.npy", "rb").read() + b"more")`,
    [
      sentenceNamed("core/data/formats/npz/npz: longer header says"),
    ],
  ],
  [
    "a header cut short",
    `np.save("x.npy", np.zeros((4, 3))); open("bad.npz", "wb").write(open("x.npy", "rb").read()[:60])`,
    [
      "has a damaged npy header",
    ],
  ],
  [
    "a header of something else",
    `
open("bad.npz", "wb").write(b"\\x93NUMPY\\x01\\x00\\x10\\x00" + b"{'hello': 123}  ")`,
    ["can't be understood"],
  ],
];

for (const [what, make, sentences] of BAD) {
  Deno.test(
    `refused: ${what}`,
    inFolder((folder) => {
      numpy(folder, make);
      const message = refused(`${folder}/bad.npz`);
      for (const sentence of sentences) assert(message.includes(sentence), message);
      assert(message.includes("bad.npz") && message.endsWith("."), message);
      assert(!/checkpoint/.test(message), message);
    }),
  );
}

Deno.test(
  "half precision keeps its own numbers, and f64 those of f32",
  inFolder((folder) => {
    numpy(folder, `np.savez("d.npz", x=np.array([0.1, 0.2], "f2"), y=np.array([0.1, 1e-3]))`);
    const { train } = open(`${folder}/d.npz`);
    assertAlmostEquals(all(train, "input")[0], 0.0999755859375, 1e-12);
    assertEquals(all(train, "target"), [Math.fround(0.1), Math.fround(1e-3)]);
  }),
);

Deno.test(
  "a file that is not there, or a path that is no file, says so",
  inFolder((folder) => {
    assert(refused(`${folder}/no.npz`).includes("there is no such file"));
    assert(refused(folder).includes("has no .npy or .npz files in it"));
  }),
);

Deno.test(
  "labels that are text are classes in sorted order, of one byte a letter or four, in either byte order",
  inFolder((folder) => {
    numpy(
      folder,
      `
words = np.array(["red", "gr\\u00fcn", "blue", "red", "blue", "gr\\u00fcn"])
np.savez("u.npz", x=np.arange(6.0), label=words)
np.savez("b.npz", x=np.arange(6.0), label=words.astype(">U7"))
np.savez_compressed("s.npz", x=np.arange(6.0), label=np.array([b"red", b"g", b"blue", b"red", b"blue", b"g"]))`,
    );
    for (const name of ["u", "b", "s"]) {
      const { train } = open(`${folder}/${name}.npz`, { features: ["x"], targets: ["label"] });
      assertEquals([train.facts.task, train.facts.outputs], ["classification", 3], name);
      assertEquals(train.names, ["blue", name === "s" ? "g" : "gr\u00fcn", "red"], name);
      assertEquals(all(train, "target"), [2, 1, 0, 2, 0, 1], name);
    }
  }),
);

Deno.test(
  "auto goes by the ending of an archive, and by arrays in a folder",
  inFolder((folder) => {
    const said = (path: string) => refusedData({ data_path: `${folder}/${path}` }).message;
    assert(said("no.npz").includes("no.npz: there is no such file"), said("no.npz"));
    Deno.mkdirSync(`${folder}/arrays`);
    Deno.writeTextFileSync(`${folder}/arrays/x.npy`, "");
    assert(said("arrays").includes("x.npy is empty"), said("arrays"));
    const { kind, message } = refusedData({ type: "npz" });
    assertEquals(kind, "usage");
    assert(message.includes("needs --data-path"), message);
  }),
);
