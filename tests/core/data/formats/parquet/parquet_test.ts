// Parquet tables as pyarrow and pandas write them: the same numbers, missing ones NaN, texts as classes.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { UserError } from "../../../../../core/base/errors.ts";
import type { Column } from "../../../../../core/data/arrays/table.ts";
import { openChunk, openChunkWindow } from "../../../../../core/data/formats/parquet/blocks.ts";
import { Damaged } from "../../../../../core/data/codecs/bytes.ts";
import { pagesOf, readHybrid } from "../../../../../core/data/formats/parquet/pages.ts";
import { openParquet, withParquet } from "../../../../../core/data/formats/parquet/parquet.ts";
import { joinColumns } from "../../../../../core/data/tables/tensors.ts";
import type { TableFile } from "../../../../../core/data/format.ts";
import { detect } from "../../../../../core/data/open/formats.ts";
import { readBytes } from "../../../../../ffi/make.ts";
import { scope } from "../../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../../libtorch.ts";
import { inFolder } from "../../../checkpoint/python.ts";
import { all, opener, refusal } from "../../tables/columns_help.ts";
import { writtenBy } from "../written.ts";
import { assertSentence } from "../../../../sentences.ts";

useLibtorch();

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView) =>
  new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);

const open = opener(openParquet);

Deno.test(
  "each type, with and without missing values, by each codec and encoding, in many pages and row groups, bit for bit",
  inFolder((folder) => {
    const files = writtenBy(
      folder,
      `
import pyarrow as pa, pyarrow.parquet as pq
ints = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
n, found = 1000, {}
def whole(t):
    i = np.iinfo(t); a = r.integers(i.min, i.max, n, dtype=t, endpoint=True); a[:2] = i.min, i.max
    return a
def save(file, columns, **options):
    arrays = {}; about = {}
    for name, (a, mask) in columns.items():
        arrays[name] = pa.array(a, mask=mask)
        if a.dtype == object:
            about[name] = [None if mask is not None and mask[i] else v for i, v in enumerate(a.tolist())]
            continue
        b = a
        if mask is not None and mask.any():
            b = a.astype("f4" if a.itemsize <= 2 or a.dtype == "f4" else "f8"); b[mask] = np.nan
        b.tofile(f"{file}.{name}.bin"); about[name] = str(b.dtype)
    pq.write_table(pa.table(arrays), file, **options); found[file] = about
def columns(few):
    out = {}
    for t in ints + ["float16", "float32", "float64", "bool"]:
        a = whole(t) if t in ints else r.normal(size=n).astype(t) if t != "bool" else r.integers(0, 2, n).astype("?")
        if few: a = a[r.integers(0, 20, n)]
        out[t] = (a, None); out[t + "_missing"] = (a, r.random(n) < 0.2)
    words = np.array(["red", "green", "blau", "", "Übergröße"], dtype=object)[r.integers(0, 5, n)]
    out["text"] = (words, None); out["text_missing"] = (words, r.random(n) < 0.2)
    return out
for i, codec in enumerate(["none", "snappy", "gzip", "zstd", "lz4", "brotli"]):
    for few in (True, False):
        save(f"{codec}{int(few)}.parquet", columns(few), compression=codec, row_group_size=300, data_page_size=512,
             data_page_version=["1.0", "2.0"][i % 2], use_dictionary=few)
c = columns(False)
delta = {k: v for k, v in c.items() if "int32" in k or "int64" in k}
save("delta.parquet", delta, use_dictionary=False, column_encoding="DELTA_BINARY_PACKED", data_page_size=700)
split = {k: v for k, v in c.items() if "float" in k or "int32" in k or "int64" in k}
save("split.parquet", split, use_dictionary=False, column_encoding="BYTE_STREAM_SPLIT")
texts = {k: v for k, v in c.items() if "text" in k}
for e in ("DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"): save(f"{e}.parquet", texts, use_dictionary=False, column_encoding=e)
save("rle.parquet", {k: v for k, v in c.items() if "bool" in k}, use_dictionary=False, column_encoding="RLE")
wide = r.integers(0, 2**40, 70000); save("wide.parquet", {"wide": (wide, None)}, dictionary_pagesize_limit=2**22)
save("uncounted.parquet", {"a": (np.arange(5), np.arange(5) == 3), "b": (np.arange(5), None)}, write_statistics=False)
found["uncounted.parquet"]["b"] = "float64"; np.arange(5.0).tofile("uncounted.parquet.b.bin")
print(json.dumps(found))`,
    ) as Record<string, Record<string, string | (string | null)[]>>;
    const types: Record<string, string> = { bool: "bool", float16: "f16", float32: "f32", float64: "f64" };
    for (const [file, expected] of Object.entries(files)) {
      withParquet(`${folder}/${file}`, ({ columns }) => {
        assertEquals(columns.map(({ name }) => name), Object.keys(expected));
        for (const column of columns) {
          const { name, text, dtype } = column, theirs = expected[name], what = `${file}: ${name}`;
          if (typeof theirs !== "string") {
            const classes = text!.classes(), codes = column.read() as Float32Array;
            assertEquals(classes.toSorted(), classes, what);
            assertEquals(Array.from(codes, (code) => classes[code] ?? null), theirs, what);
            assertMatch(text!.example, /^".*"$/);
            continue;
          }
          assertEquals(dtype, types[theirs] ?? `${theirs[0]}${theirs.replace(/\D/g, "")}`, what);
          const found = bytesOf(column.read()), bytes = Deno.readFileSync(`${folder}/${file}.${name}.bin`);
          assertEquals(found.length, bytes.length, what);
          const at = bytes.findIndex((byte, i) => byte !== found[i]);
          assertEquals(at, -1, `${what} differs from byte ${at} on`);
        }
      });
      withParquet(`${folder}/${file}`, sameSideBySide);
    }
  }),
);

/** Columns of numbers that are read at once have the bits of those that are read one by one. */
function sameSideBySide(table: TableFile): number {
  const numbers = table.columns.filter(({ text }) => !text);
  if (numbers.length === 0) return 0;
  scope(() => {
    const known = numbers.filter(({ name }) => !/uint64/.test(name));
    assertEquals(table.sideBySide!(numbers) === null, known.length < numbers.length, table.path);
    for (const chosen of [known, ...known.map((column) => [column])]) {
      const one = joinColumns({ ...table, sideBySide: undefined }, chosen, false, true);
      const other = joinColumns(table, chosen, false, true);
      const what = `${table.path}: ${chosen.map(({ name }) => name)}`;
      assertEquals(other.values.dtype, one.values.dtype, what);
      assertEquals(other.values.shape, one.values.shape, what);
      assertEquals([other.bad, other.missing, other.notes], [one.bad, one.missing, one.notes], what);
      const theirs = readBytes(one.values), ours = readBytes(other.values);
      const at = theirs.findIndex((byte, i) => byte !== ours[i]);
      assertEquals(at, -1, `${what} differs from byte ${at} on`);
    }
  });
  return numbers.length;
}

Deno.test(
  "threads share the row groups of a large table, whose columns have the same bits; damage is named by its column",
  inFolder((folder) => {
    writtenBy(
      folder,
      `
import pyarrow as pa, pyarrow.parquet as pq
n = 300_000
c = {"f": r.normal(size=n).astype("f4"), "d": r.normal(size=n), "i": r.integers(0, 9, n), "l": r.integers(-2**62, 2**62, n),
     "s": r.integers(-99, 99, n).astype("i2"), "u": r.integers(0, 2**32, n).astype("u4"), "n": r.integers(0, 2**20, n).astype("i4")}
t = pa.table(c).append_column("m", pa.array(r.normal(size=n), mask=r.random(n) < 0.3)).append_column("k", pa.array(c["l"], mask=r.random(n) < 0.01))
for size in (40_000, n): pq.write_table(t, f"{size}.parquet", row_group_size=size, compression="snappy")`,
    );
    for (const name of ["40000", "300000"]) {
      assertEquals(withParquet(`${folder}/${name}.parquet`, sameSideBySide), 9);
    }
    const path = `${folder}/40000.parquet`, bytes = Deno.readFileSync(path);
    bytes.fill(255, bytes.length >> 1, (bytes.length >> 1) + 200_000);
    Deno.writeFileSync(path, bytes);
    const sentence = refusal(() => open(path, { in_memory: "yes", targets: ["d"] }));
    assertMatch(sentence, /40000\.parquet: the column "\w" has .*\. Copy it again/);
  }),
);

Deno.test(
  "a table trains: classes of texts or whole numbers, missing values refused or left out, files of a folder joined",
  inFolder((folder) => {
    writtenBy(
      folder,
      `
import pandas as pd, pyarrow as pa, pyarrow.parquet as pq
for name in ["parts", "odd", "deep/2", "deep/10"]: os.makedirs(name)
d = pd.DataFrame({"a": np.arange(12.0), "b": np.arange(12) * 2, "kind": pd.Categorical(["x", "y", "z"] * 4), "day": pd.date_range("2000-01-01", periods=12)})
d.to_parquet("all.parquet", row_group_size=5); d[:7].to_parquet("parts/0.parquet"); d[7:].to_parquet("parts/1.parquet")
d[:7].to_parquet("deep/2/a.parquet"); d[7:].to_parquet("deep/10/a.parquet")
d[["a", "b"]].to_parquet("odd/0.parquet"); d[["a"]].to_parquet("odd/1.parquet")
m = d.drop(columns="day"); m.loc[3, "a"] = np.nan; m["b"] = m["b"].astype("Int64"); m.loc[5, "b"] = pd.NA; m.index = m.index * 10 + 1
m[m.a != 7].to_parquet("missing.parquet")
pq.write_table(pa.table({"l": [[1, 2]], "s": [{"u": 1}], "n": [1], "d": pa.array([1], pa.decimal128(5, 2)), "raw": [b"x"]}), "nested.parquet")`,
    );
    for (const name of ["all.parquet", "parts", "parts/*.parquet", "deep"]) {
      const path = `${folder}/${name}`;
      assertEquals(detect(path), "parquet");
      const { train } = open(path, { features: ["a", "b"], targets: ["kind"] });
      assertEquals([train.facts.task, train.facts.outputs], ["classification", 3]);
      assertEquals(all(train, "input").slice(0, 4), [0, 0, 1, 2]);
      assertEquals(all(train, "target"), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]);
    }
    const program = open(`${folder}/all.parquet`, { features: ["a", "b"], targets: ["kind"] }, {}, {
      name: "m.pt2",
    });
    assertEquals(program.train.facts.input.columns!.map(({ whole }) => whole), [false, true]);
    const { train } = open(`${folder}/missing.parquet`, {
      features: ["a"],
      targets: ["b"],
      bad_samples: "skip",
    });
    assertEquals(all(train, "input"), [0, 1, 2, 4, 6, 8, 9, 10, 11]);
    assertEquals(train.facts.task, "classification");
    const missing = refusal(() =>
      open(`${folder}/missing.parquet`, { features: ["a", "b"], targets: ["kind"] })
    );
    assertSentence("core/data/formats/parquet/parquet: column nan infinite", missing);
    assertStringIncludes(
      refusal(() => open(`${folder}/odd`)),
      '1.parquet has no column "b", but 0.parquet has it',
    );
    const dates = refusal(() => open(`${folder}/all.parquet`, { features: ["day"], targets: ["kind"] }));
    assertStringIncludes(dates, 'the column "day" holds dates or times');
    const streamed = refusal(() =>
      open(`${folder}/all.parquet`, { features: ["a"], targets: ["b"], in_memory: "no" })
    );
    assertStringIncludes(streamed, 'the column "a" is packed in pages');
    withParquet(`${folder}/nested.parquet`, ({ columns }) => {
      const reasons = (columns as Column[]).map(({ name, unusable }) =>
        `${name} ${unusable?.split(":")[0] ?? "fine"}`
      );
      assertEquals(reasons, [
        "l fine",
        "s holds records",
        "n fine",
        "d holds decimals",
        "raw holds bytes, not numbers",
      ]);
      assertEquals([...columns[2].read() as BigInt64Array], [1n]);
    });
  }),
);

Deno.test(
  "damaged tables end in a sentence, wherever the damage is",
  inFolder((folder) => {
    writtenBy(
      folder,
      `
import pyarrow as pa, pyarrow.parquet as pq
t = pa.table({"a": pa.array(r.normal(size=200)), "b": pa.array(r.integers(0, 9, 200)), "c": pa.array(["u", "v"] * 100)})
for codec in ("none", "snappy", "zstd"): pq.write_table(t, codec + ".parquet", compression=codec, row_group_size=90)`,
    );
    let seed = 7;
    const next = (below: number) => (seed = Math.imul(seed, 1103515245) + 12345 >>> 0) % below;
    let refused = 0;
    for (const codec of ["none", "snappy", "zstd"]) {
      const whole = Deno.readFileSync(`${folder}/${codec}.parquet`), path = `${folder}/damaged.parquet`;
      for (let round = 0; round < 250; round++) {
        const bytes = whole.slice(0, round % 5 === 0 ? next(whole.length) : whole.length);
        for (let i = round % 4; i >= 0 && bytes.length > 0; i--) bytes[next(bytes.length)] = next(256);
        Deno.writeFileSync(path, bytes);
        try {
          withParquet(path, ({ columns }) => columns.forEach((column) => column.unusable || column.read()));
        } catch (error) {
          assert(error instanceof UserError, `${codec} ${round}: ${(error as Error).stack}`);
          assertStringIncludes(error.message, "damaged.parquet");
          refused++;
        }
      }
    }
    assert(refused > 200, `${refused}`);
  }),
);

Deno.test("runs and packed values of any width are those that were written; what is cut off is refused", () => {
  // Eight values of three bits, 0 to 7, as in the description of the format.
  const into = new Int32Array(8);
  readHybrid(Uint8Array.of(3, 0b10001000, 0b11000110, 0b11111010), 3, into);
  assertEquals([...into], [0, 1, 2, 3, 4, 5, 6, 7]);
  const values = Array.from({ length: 16 }, (_, i) => 2 ** 30 + i * 12345);
  const bits = values.map((value) => value.toString(2).padStart(31, "0").split("").reverse().join("")).join(
    "",
  );
  const packed = Uint8Array.from(
    { length: 62 },
    (_, i) => parseInt(bits.slice(8 * i, 8 * i + 8).split("").reverse().join(""), 2),
  );
  const wide = new Int32Array(16);
  readHybrid(Uint8Array.of(5, ...packed), 31, wide);
  assertEquals([...wide], values);
  for (const bytes of [[], [128], [3, 1], [2]]) {
    try {
      readHybrid(Uint8Array.from(bytes), 3, new Int32Array(8));
      throw new Error("taken");
    } catch (error) {
      assert(error instanceof Damaged, String(error));
    }
  }
  const facts = { physical: "INT32", codec: "SNAPPY", optional: false, rows: 4 } as const;
  try {
    [...pagesOf(openChunk((into) => void into.fill(255), 0, 40, openChunkWindow()), facts)];
    throw new Error("taken");
  } catch (error) {
    assert(error instanceof Damaged, String(error));
  }
});

Deno.test(
  "lists of one length are samples [T] or [T, C], however they are written; others are refused with a line that helps",
  inFolder((folder) => {
    const expected = writtenBy(
      folder,
      `
import pyarrow as pa, pyarrow.parquet as pq
n = 300; x = r.normal(size=(n, 6)).astype("f4"); s = r.normal(size=(n, 4, 3)); k = r.integers(-5, 5, (n, 2))
f = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 6)
must = pa.schema([pa.field("x", pa.list_(pa.field("item", pa.float32(), False)), False)])
t = pa.table({"x": pa.array(x.tolist(), pa.list_(pa.float32())), "s": pa.array(s.tolist(), pa.large_list(pa.list_(pa.float64()))),
  "k": pa.array(k.tolist(), pa.list_(pa.int64())), "f": f, "ragged": pa.array([[1.0] * (1 + i % 3) for i in range(n)]),
  "words": pa.array([["a", "b"]] * n), "late": pa.array([[1.0, 2.0]] * (n - 2) + [[1.0], [1.0, 2.0, 3.0]]), "y": pa.array(r.normal(size=n))})
for i, o in enumerate([dict(), dict(compression="zstd", row_group_size=70, data_page_size=100, write_batch_size=10),
  dict(compression="none", use_dictionary=False, data_page_version="2.0"), dict(use_compliant_nested_type=False, compression="gzip")]): pq.write_table(t, f"{i}.parquet", **o)
pq.write_table(pa.table({"x": pa.array(x.tolist(), must.field("x").type)}, schema=must), "must.parquet")
print(json.dumps({"x": x.ravel().tolist(), "f": x.ravel().tolist(), "s": s.ravel().tolist(), "k": [str(v) for v in k.ravel().tolist()]}))`,
    );
    const values = (column: Column) =>
      Array.from(
        column.read() as unknown as ArrayLike<number>,
        (value) => typeof value === "bigint" ? String(value) : value,
      );
    for (const name of ["0", "1", "2", "3", "must"]) {
      withParquet(`${folder}/${name}.parquet`, ({ columns }) => {
        const of = new Map(columns.map((column) => [column.name, column as Column]));
        assertEquals(of.get("x")!.shape, [300, 6], name);
        assertEquals(values(of.get("x")!), expected.x, name);
        if (name === "must") return;
        assertEquals(of.get("s")!.shape, [300, 4, 3]);
        for (const key of ["s", "k", "f"]) {
          assertEquals(values(of.get(key)!), expected[key], `${name}: ${key}`);
        }
        assertSentence(
          "core/data/formats/parquet/parquet: several lengths empty",
          of.get("ragged")!.unusable!,
        );
        assertStringIncludes(of.get("words")!.unusable!, "lists of other things than numbers");
      });
    }
    assertSentence(
      "core/data/formats/parquet/parquet: row whose list",
      refusal(() => open(`${folder}/0.parquet`, { features: ["late"], targets: ["y"] })),
    );
    assertEquals(open(`${folder}/0.parquet`, { features: ["s"], targets: ["y"] }).train.length, 300);
    // Damage ends in a sentence.
    const whole = Deno.readFileSync(`${folder}/1.parquet`);
    let seed = 3, refused = 0;
    const next = (below: number) => (seed = Math.imul(seed, 1103515245) + 12345 >>> 0) % below;
    for (let round = 0; round < 60; round++) {
      const bytes = whole.slice();
      for (let i = 0; i < 4; i++) bytes[next(bytes.length)] ^= 1 + next(255);
      Deno.writeFileSync(`${folder}/damaged.parquet`, bytes);
      try {
        open(`${folder}/damaged.parquet`, { features: ["s", "x"], targets: ["y"], bad_samples: "skip" });
      } catch (error) {
        assert(error instanceof UserError, String((error as Error).stack));
        refused++;
      }
    }
    assert(refused > 10, String(refused));
  }),
);
