// Arrow files, streams and Feather as pyarrow writes them: the same values in memory and a sample at a time.
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import type { Column } from "../../../core/data/arrays/table.ts";
import { typedView } from "../../../core/data/arrays/numbers.ts";
import { withArrow } from "../arrow.ts";
import { unpackFrame } from "../buffers.ts";
import { detect } from "../../../core/data/open/formats.ts";
import { useLibtorch } from "../../../tests/libtorch.ts";
import { inFolder } from "../../../tests/core/checkpoint/python.ts";
import { alike, numbers, open } from "../../../tests/core/data/streamed.ts";
import { writtenBy } from "../../../tests/core/data/formats/written.ts";
import { assertSentence } from "../../../tests/sentences.ts";

useLibtorch();

const valuesOf = ({ read, dtype }: Column) => {
  const { buffer, byteOffset, byteLength } = read();
  return Array.from(
    typedView(new Uint8Array(buffer, byteOffset, byteLength), dtype) as ArrayLike<number | bigint>,
    (value) => typeof value === "bigint" ? String(value) : Number.isNaN(value) ? null : value,
  );
};

const WRITE = `
import pyarrow as pa, pyarrow.feather as f, pandas as pd
def write(name, table, stream=False, compression=None, rows=None):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(name, table.schema, options=options) as w:
        for batch in table.to_batches(max_chunksize=rows): w.write_batch(batch)
def told(t): # as JSON has it: 64-bit numbers as texts
    found = {}
    for c in t.column_names:
        a = t[c].combine_chunks(); values = a.to_pylist()
        if pa.types.is_fixed_size_list(a.type): values = [v for row in values for v in row]
        wide = str(a.type) in ("int64", "uint64") and a.null_count == 0
        found[c] = [None if v is None or v != v else str(v) if wide else float(v) if not isinstance(v, str) else v for v in values]
    return found
`;

Deno.test(
  "each type with gaps and without, plain, LZ4 or zstd, in files, streams and Feather, as pyarrow has it",
  inFolder((folder) => {
    const expected = writtenBy(
      folder,
      `${WRITE}
n = 1000; columns = {}
for t in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"):
    v = r.integers(0, 100, n) if t != "uint64" else r.integers(0, 2**63, n).astype("u8") * 2 + 1
    a = v.astype(t) if t[0] in "iu" else (r.normal(size=n) * 10).astype(t)
    columns[t] = pa.array(a)
    columns[t + "_gaps"] = pa.array(a, mask=r.random(n) < .2)
columns["bool"] = pa.array(r.random(n) < .5); columns["bool_gaps"] = pa.array(r.random(n) < .5, mask=r.random(n) < .2)
words = r.choice(["red", "grün", "blue", ""], n)
columns["text"] = pa.array(words); columns["large"] = pa.array(words, pa.large_string()); columns["gaps"] = pa.array(words, mask=r.random(n) < .2)
columns["coded"] = pa.array(words).dictionary_encode(); columns["coded_gaps"] = pa.array(words, mask=r.random(n) < .2).dictionary_encode()
columns["list"] = pa.FixedSizeListArray.from_arrays(pa.array(r.normal(size=3 * n).astype("f4")), 3)
columns["nested"] = pa.array([{"a": 1, "b": [1, 2]}] * n); columns["when"] = pa.array(pd.date_range("2000", periods=n)); columns["last"] = pa.array(r.normal(size=n))
t = pa.table(columns)
for stream in (False, True):
    for c in (None, "lz4", "zstd"): write(f"{'stream' if stream else 'file'}-{c}.arrow", t, stream, c, 333)
f.write_feather(t, "lz4.feather"); f.write_feather(t, "plain.feather", compression="uncompressed")
print(json.dumps(told(t.drop_columns(["nested", "when"]))))`,
    ) as Record<string, (number | string | null)[]>;
    for (const { name } of Deno.readDirSync(folder)) {
      assertEquals(detect(`${folder}/${name}`), "arrow");
      withArrow(`${folder}/${name}`, ({ columns }) => {
        const of = new Map(columns.map((column) => [column.name, column]));
        assertStringIncludes(of.get("nested")!.unusable!, "holds records: make a column of each field");
        assertStringIncludes(of.get("when")!.unusable!, "dates or times");
        for (const [key, values] of Object.entries(expected)) {
          const column = of.get(key)!, found = valuesOf(column), classes = column.text?.classes();
          assertEquals(column.unusable, undefined, key);
          assertEquals(
            classes ? found.map((code) => code === null ? null : classes[Number(code)]) : found,
            values,
            `${name}: ${key}`,
          );
        }
      });
    }
  }),
);

Deno.test(
  "a folder of files is one table, alike in memory and a sample at a time, and a text is classes",
  inFolder(async (folder) => {
    const [a, b, n]: number[][] = writtenBy(
      folder,
      `${WRITE}
os.mkdir("parts"); x = r.normal(size=(90, 2)).astype("f4")
t = pa.table({"a": x[:, 0], "b": x[:, 1], "v": pa.FixedSizeListArray.from_arrays(pa.array(r.normal(size=270).astype("f4")), 3), "n": r.integers(0, 9, 90), "kind": r.choice(["p", "q"], 90)})
for i in range(3): write(f"parts/{i}.arrow", t.slice(30 * i, 30), rows=[7, 30, 11][i])
write("packed.arrow", t, compression="zstd"); print(json.dumps([t[name].to_pylist() for name in ("a", "b", "n")]))`,
    );
    const changes = { data: { features: ["a", "b"], targets: ["n"] } };
    const { train } = await alike(`${folder}/parts`, changes);
    const rows = [...train.indices!];
    assertEquals(numbers(train), [rows.flatMap((row) => [a[row], b[row]]), rows.map((row) => n[row])]);
    await alike(`${folder}/parts/*.arrow`, { data: { features: ["v"], targets: ["n"] } });
    const { train: classes } = await open(`${folder}/parts`, "yes", {
      data: { features: ["a"] },
      training: { loss: "auto" },
    });
    assertEquals([classes.facts.task, classes.names], ["classification", ["p", "q"]]);
    const why = await open(`${folder}/packed.arrow`, "no", changes).catch((error: Error) => error.message);
    assertSentence("extensions/arrow/tests/arrow: packed batch batch", String(why));
  }),
);

Deno.test(
  "damaged files end in a sentence that names the file and the column, whatever byte is wrong",
  inFolder((folder) => {
    writtenBy(
      folder,
      `${WRITE}
t = pa.table({"x": r.normal(size=100), "k": pa.array(r.choice(["a", "b"], 100)).dictionary_encode(), "w": r.choice(["aa", "b"], 100)})
write("good.arrow", t, compression="lz4"); write("stream.arrow", t, True); good = open("good.arrow", "rb").read()
open("cut.arrow", "wb").write(good[:-20]); open("none.arrow", "wb").write(b"hello, world"); open("empty.arrow", "wb"); open("old.feather", "wb").write(b"FEA1" + bytes(40))
i = good.index((100 * 8).to_bytes(8, "little")); bomb = bytearray(good); bomb[i:i + 8] = (2**40).to_bytes(8, "little"); open("bomb.arrow", "wb").write(bomb)`,
    );
    const read = (path: string) =>
      withArrow(path, ({ columns }) => columns.forEach((column) => column.unusable || valuesOf(column)));
    const sentence = (name: string): string => {
      const error = assertThrows(() => read(`${folder}/${name}`), UserError);
      assertEquals(error.kind, "data", error.message);
      return error.message;
    };
    assertSentence("extensions/arrow/tests/arrow: cut arrow damaged", sentence("cut.arrow"));
    assertMatch(sentence("none.arrow"), /none\.arrow is no Arrow file/);
    assertMatch(sentence("empty.arrow"), /empty\.arrow is no Arrow file/);
    assertMatch(sentence("old.feather"), /Feather of version 1.*read_feather/);
    assertMatch(
      sentence("bomb.arrow"),
      /bomb\.arrow: the column "x" has a buffer of \d+ bytes that is said to become 1099511627776, and 800/,
    );
    let refused = 0;
    for (const name of ["good.arrow", "stream.arrow"]) {
      const good = Deno.readFileSync(`${folder}/${name}`), path = `${folder}/bad.arrow`;
      for (let at = 0, seed = 1; at < good.length; at += 11) {
        const bad = good.slice();
        bad[at] ^= (seed = Math.imul(seed, 1103515245) + 12345 >>> 0) >>> 24 | 1;
        Deno.writeFileSync(path, bad);
        try {
          read(path);
        } catch (error) {
          assert(error instanceof UserError, `byte ${at} of ${name}: ${(error as Error).stack}`);
          refused++;
        }
      }
    }
    assert(refused > 100, `${refused} were refused`);
    const random = new Uint8Array(300), into = new Uint8Array(500);
    for (let round = 0, seed = 3; round < 2000; round++) {
      for (let i = 7; i < random.length; i++) {
        random[i] = (seed = Math.imul(seed, 1103515245) + 12345 >>> 0) >>> 24;
      }
      random.set([4, 34, 77, 24, 64, 64, 0, 200, 0, 0, 0]);
      unpackFrame(random, into);
    }
  }),
);

Deno.test(
  "lists of one length are samples [T] or [T, C], in memory and a sample at a time; others are refused with a line that helps",
  inFolder(async (folder) => {
    const expected = writtenBy(
      folder,
      `${WRITE}
n = 50; x = r.normal(size=(n, 6)).astype("f4"); s = r.normal(size=(n, 4, 3)); k = r.integers(-5, 5, (n, 2))
t = pa.table({"x": pa.array(x.tolist(), pa.list_(pa.float32())), "s": pa.array(s.tolist(), pa.large_list(pa.list_(pa.float64()))),
  "k": pa.array(k.tolist(), pa.list_(pa.int64())), "ragged": pa.array([[1.0] * (1 + i % 3) for i in range(n)]),
  "words": pa.array([["a", "b"]] * n), "gaps": pa.array([[1.0, None]] * n), "y": pa.array(r.normal(size=n))})
write("l.arrow", t.slice(7, 30), rows=8); write("z.arrow", t.slice(7, 30), compression="zstd", stream=True)
print(json.dumps({"x": x[7:37].ravel().tolist(), "s": s[7:37].ravel().tolist(), "k": [str(v) for v in k[7:37].ravel().tolist()]}))`,
    );
    for (const name of ["l.arrow", "z.arrow"]) {
      withArrow(`${folder}/${name}`, ({ columns }) => {
        const of = new Map(columns.map((column) => [column.name, column as Column]));
        assertEquals(["x", "s", "k"].map((key) => of.get(key)!.shape), [[30, 6], [30, 4, 3], [30, 2]]);
        for (const key of ["x", "s", "k"]) {
          assertEquals(valuesOf(of.get(key)!), expected[key], `${name}: ${key}`);
        }
        assertSentence("extensions/arrow/tests/arrow: lists several lengths", of.get("ragged")!.unusable!);
        assertStringIncludes(of.get("words")!.unusable!, "lists of other things than numbers");
        assertStringIncludes(of.get("gaps")!.unusable!, "gaps in its lists");
      });
    }
    await alike(`${folder}/l.arrow`, { data: { features: ["s"], targets: ["y"] } });
  }),
);
