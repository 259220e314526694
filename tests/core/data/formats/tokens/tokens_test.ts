// Files of tokens: what nanoGPT and llm.c write, windows that are a function of the sample, and what is refused.
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import type { Config } from "../../../../../core/settings/settings.ts";
import { batchOf, plainPart, type Source } from "../../../../../core/data/source/source.ts";
import { reader as tokens } from "../../../../../core/data/formats/tokens/tokens.ts";
import { noteReader } from "../../../../../core/data/source/reader.ts";
import { toBigInts } from "../../../../../ffi/make.ts";
import { liveTensors, scope } from "../../../../../ffi/tensor.ts";
import { opened, refusedData } from "../../opened.ts";
import { useLibtorch } from "../../../../libtorch.ts";
import { inFolder, python } from "../../../checkpoint/python.ts";
import { type Changes, refusal } from "../../tables/columns_help.ts";
import { range, settings } from "../../tables/help.ts";
import reader, { tokensReader } from "../../../../../core/data/formats/tokens/reader.ts";
import { assertSentence, sentenceNamed } from "../../../../sentences.ts";

useLibtorch();
noteReader(tokensReader, reader);

function open(path: string, data: Changes = {}, model: Partial<Config["model"]> = {}, seed = 1) {
  const config = settings({ data: { data_path: path, ...data }, model: { context: 8, ...model } });
  config.training.seed = seed;
  return tokens.open(config);
}

/** numpy writes `code`'s files into the folder; `llmc` writes what llm.c's data_common.py does. */
const write = (folder: string, code: string) =>
  python(
    `
import sys, os, numpy as np
os.chdir(sys.argv[1]); r = np.random.default_rng(0)
def llmc(name, toks, magic=20240520, version=1, dtype=np.uint16, count=None):
    header = np.zeros(256, np.int32); header[:3] = magic, version, len(toks) if count is None else count
    open(name, "wb").write(header.tobytes() + np.asarray(toks, dtype).tobytes())
${code}`,
    folder,
  );

/** Input and target of these samples, row by row. */
const windows = (source: Source, ids: number[], epoch = 0): number[][][] =>
  scope(() => {
    const { input, target } = batchOf(source, plainPart(ids, epoch));
    const [inputs, targets] = [input, target].map((t) => [...toBigInts(t)].map(Number));
    const width = source.input.shape[0];
    return ids.map((_, i) => [inputs, targets].map((all) => all.slice(i * width, (i + 1) * width)));
  });

Deno.test(
  "every kind of file gives the numbers numpy wrote, each target being the token after its input",
  inFolder((folder) => {
    write(
      folder,
      `
a = np.arange(500, dtype=np.uint16) * 100; a.tofile("flat16.bin"); llmc("llmc.bin", a)
b = np.arange(500, dtype=np.uint32) * 250; b.tofile("flat32.bin"); llmc("llama.bin", b, 20240801, 7, np.uint32)
(np.arange(500) % 4).astype(np.uint16).tofile("dna.bin"); (np.arange(500) % 4).astype(np.uint32).tofile("dna32.bin")`,
    );
    const cases: [string, (i: number) => number, number, string][] = [
      ["flat16", (i) => 100 * i, 49_901, "Tokens are uint16, "],
      ["llmc", (i) => 100 * i, 49_901, "Tokens are uint16 behind llm.c's header"],
      ["flat32", (i) => 250 * i, 124_751, "Tokens are uint32, as every second 16 bits"],
      ["llama", (i) => 250 * i, 124_751, "Tokens are uint32 behind"],
      ["dna", (i) => i % 4, 4, "Tokens are uint16, "],
      ["dna32", (i) => i % 4, 4, "Tokens are uint32, "],
    ];
    for (const [name, value, vocabulary, said] of cases) {
      const { train, val, notes } = open(`${folder}/${name}.bin`, { validation_split: 0.1 });
      assert(notes[0].startsWith(said), `${name}: ${notes[0]}`);
      assertEquals(train.facts, {
        task: "language",
        input: { shape: [8], dtype: "i64" },
        outputs: vocabulary,
      });
      assertEquals([train.length, val!.length], [Math.ceil(442 / 8), 6], name);
      const all = windows(train, range(0, train.length));
      for (const [input, target] of all) {
        const first = range(0, 442).find((i) => input[0] === value(i))!;
        assertEquals(input, range(first, first + 8).map(value), name);
        assertEquals(target, range(first + 1, first + 9).map(value), name);
      }
      // The last tenth of the tokens, side by side.
      assertEquals(windows(val!, [0, 5]).map(([input]) => input[0]), [value(450), value(490)]);
    }
  }),
);

Deno.test(
  "where a window begins is a function of seed, epoch and sample, and no training window reaches what validates",
  inFolder((folder) => {
    write(folder, `np.arange(60000, dtype=np.uint16).tofile("t.bin")`);
    const path = `${folder}/t.bin`;
    const starts = (source: Source, epoch = 0) =>
      windows(source, range(0, source.length), epoch).map(([input]) => input[0]);
    const { train, val } = open(path);
    const first = starts(train);
    assertEquals(first, starts(open(path).train));
    assertEquals(windows(train, [7, 3, 7]).map(([input]) => input[0]), [first[7], first[3], first[7]]);
    assertNotEquals(first, starts(open(path, {}, {}, 2).train));
    assertEquals(train.length, (54000 - 8) / 8);
    assert(Math.max(...first) + 8 < 54000 && Math.min(...starts(val!)) === 54000);
    const mean = first.reduce((a, b) => a + b) / first.length;
    assert(Math.abs(mean - 27000) < 4 * 54000 / Math.sqrt(12 * first.length), `uniform: mean ${mean}`);
    assertEquals(new Set(starts(val!)).size, val!.length);
    const few = open(path, { train_samples: 5, val_samples: 3 });
    assertEquals([few.train.length, few.val!.length], [5, 3]);
    assertEquals(open(path, { val_samples: 0 }).val, null);
  }),
);

Deno.test(
  "each epoch's windows begin at other places, side by side or anywhere, and fixed ones stay where they are, in memory and from files",
  inFolder((folder) => {
    write(folder, `np.arange(9008, dtype=np.uint16).tofile("t.bin")`);
    const path = `${folder}/t.bin`, sorted = (all: number[]) => all.toSorted((a, b) => a - b);
    for (const kind of ["shifted", "random", "fixed"] as const) {
      const sources = (["yes", "no"] as const).map((in_memory) =>
        open(path, { windows: kind, in_memory, val_samples: 0 }).train
      );
      const starts = (epoch: number) => {
        const [held, read] = sources.map((source) =>
          windows(source, range(0, source.length), epoch).map(([input]) => input[0])
        );
        assertEquals(held, read);
        return held;
      };
      const epochs = [0, 1, 2, 1].map(starts);
      assertEquals(epochs[3], epochs[1]); // whoever comes back to an epoch
      assertEquals(sources[0].length, 9000 / 8);
      const gaps = epochs.map((all) => new Set(sorted(all).slice(1).map((at, i) => at - sorted(all)[i])));
      if (kind === "shifted") assertEquals(gaps.map((all) => [...all]), [[8], [8], [8], [8]]);
      else assert(gaps.every((all) => all.size > 10), kind);
      const same = (a: number[], b: number[]) => a.filter((at, i) => at === b[i]).length;
      if (kind === "fixed") assertEquals(epochs[0], epochs[1]);
      else assert(same(epochs[0], epochs[1]) < 9 && same(epochs[1], epochs[2]) < 9, kind);
    }
  }),
);

Deno.test(
  "few windows of an epoch lie far apart",
  inFolder((folder) => {
    write(folder, `np.arange(9008, dtype=np.uint16).tofile("t.bin")`);
    const { train } = open(`${folder}/t.bin`, { train_samples: 9, val_samples: 0 });
    const starts = windows(train, range(0, 9)).map(([input]) => input[0]).toSorted((a, b) => a - b);
    assertEquals(starts.slice(1).map((at, i) => at - starts[i]), new Array(8).fill(1000));
  }),
);

Deno.test(
  "a folder's train and val files are used as they are, in several pieces, and no window goes on into the next",
  inFolder((folder) => {
    write(
      folder,
      `
os.mkdir("n"); np.arange(100, dtype=np.uint16).tofile("n/train.bin"); np.arange(200, 240, dtype=np.uint16).tofile("n/val.bin")
os.mkdir("l")
for i in range(3): llmc(f"l/web_train_{i:06d}.bin", np.arange(1000 * i, 1000 * i + 400))
llmc("l/web_val_000000.bin", np.arange(9000, 9050)); llmc("l/short_train.bin", [1, 2, 3])`,
    );
    const nano = open(`${folder}/n`);
    assertEquals([nano.train.length, nano.val!.length, nano.train.facts.outputs], [12, 4, 240]);
    assertEquals(windows(nano.val!, [0, 1, 2, 3]).map(([input]) => input[0]), [200, 208, 216, 224]);
    const web = open(`${folder}/l`);
    const all = windows(web.train, range(0, web.train.length));
    for (const [input, target] of all) {
      assertEquals(input.map((value) => value - input[0]), range(0, 8));
      assertEquals(target[7], input[7] + 1);
    }
    assert(
      [0, 1, 2].every((piece) => all.some(([input]) => Math.floor(input[0] / 1000) === piece)),
      "all pieces",
    );
    assertEquals(windows(web.val!, [0]).map(([input]) => input[0]), [9000]);
  }),
);

Deno.test(
  "the bytes of text are tokens where that is asked for, in memory and from the file",
  inFolder(async (folder) => {
    const text = "To be, or not to be: that is the question. Größe!\n".repeat(40);
    await Deno.writeTextFile(`${folder}/input.txt`, text);
    const bytes = [...new TextEncoder().encode(text)];
    await tokens.prepare!({ data_path: folder, external_files: false });
    for (const in_memory of ["yes", "no"] as const) {
      const { train, notes } = open(`${folder}/input.txt`, {
        token_type: "uint8",
        in_memory,
        validation_split: 0.1,
      });
      assertSentence("core/data/formats/tokens/tokens: tokens uint data", notes[0]);
      assertEquals(train.facts.outputs, 256);
      for (const [input, target] of windows(train, range(0, train.length))) {
        const first = bytes.findIndex((_, i) => input.every((token, k) => bytes[i + k] === token));
        assert(first >= 0);
        assertEquals(target.slice(0, -1), input.slice(1));
      }
    }
  }),
);

Deno.test(
  "real tokens of any vocabulary are never taken for text, and a type that is given is believed",
  inFolder((folder) => {
    write(
      folder,
      `
for i, most in enumerate([256, 2000, 50257, 65536]): r.integers(0, most, 4000).astype(np.uint16).tofile(f"{i}.bin")
for i, most in enumerate([2000, 128256, 200000]): r.integers(0, most, 4000).astype(np.uint32).tofile(f"{4 + i}.bin")
(0x2020 + r.integers(0, 90, 4000)).astype(np.uint16).tofile("like_text.bin")`,
    );
    for (let i = 0; i < 7; i++) assert(open(`${folder}/${i}.bin`).train.length > 0);
    assert(open(`${folder}/like_text.bin`).notes[0].startsWith("Tokens are the bytes of a text"));
    assert(open(`${folder}/like_text.bin`, { token_type: "uint16" }).train.length > 0);
    assert(
      open(`${folder}/0.bin`, { token_type: "uint32" }).notes[0].startsWith(
        "Tokens are uint32 (data.token_type)",
      ),
    );
  }),
);

Deno.test(
  "a batch leaves nothing behind",
  inFolder((folder) => {
    write(folder, `np.arange(1000, dtype=np.uint16).tofile("t.bin")`);
    const before = liveTensors();
    const { train } = open(`${folder}/t.bin`);
    assertEquals(
      liveTensors(),
      before + 2,
      "the tokens to train with, those to validate with, and nothing else",
    );
    scope(() => void batchOf(train, plainPart([1, 2])));
    assertEquals(liveTensors(), before + 2);
  }),
);

const BAD: [
  what: string,
  make: string,
  sentences: string[],
  model?: Partial<Config["model"]>,
  data?: Changes,
][] = [
  ["a token beyond the vocabulary", `np.array([1, 2, 50, 30] * 9, np.uint16).tofile("t.bin")`, [
    sentenceNamed("core/data/formats/tokens/tokens: token counted outside"),
  ], { vocab_size: 50 }],
  ["too few tokens", `np.arange(8, dtype=np.uint16).tofile("t.bin")`, ["too few for a window of 8"]],
  ["an empty file", `open("t.bin", "w")`, ["is empty"]],
  ["half a token", `open("t.bin", "wb").write(b"abc")`, ["has 3 bytes, an odd number"]],
  ["a header and too little", `llmc("t.bin", np.arange(100), count=101)`, [
    "is truncated: 1226 bytes expected for 101 tokens, 1224 found",
  ]],
  ["a header and too much", `llmc("t.bin", np.arange(100), count=99)`, ["is longer than its header says"]],
  ["another version", `llmc("t.bin", np.arange(100), version=2)`, ["mark 20240520 and version 2"]],
  ["the weights of llm.c", `llmc("t.bin", np.arange(100), 20240326, 5)`, ["mark 20240326 and version 5"]],
  ["an npy file", `np.save("x", np.arange(9)); os.rename("x.npy", "t.bin")`, [
    "is an npy file: write tokens with",
  ]],
  [
    "text as Windows writes it",
    `open("t.bin", "wb").write(b"\\xff\\xfe" + ("To be " * 99).encode("utf-16-le"))`,
    [sentenceNamed("core/data/formats/tokens/tokens: text utf windows")],
  ],
  ["a gzip file", `import gzip; open("t.bin", "wb").write(gzip.compress(r.bytes(1000)))`, [
    "is compressed by gzip",
  ]],
  ["a checkpoint", `import zipfile; zipfile.ZipFile("t.bin", "w").writestr("data.pkl", "x" * 99)`, [
    "is a zip file",
  ]],
  [
    "bytes that are no whole tokens of the type",
    `open("t.bin", "wb").write(b"abcde")`,
    ["no whole number of uint16"],
    {},
    {
      token_type: "uint16",
    },
  ],
];

for (const [what, make, sentences, model, data] of BAD) {
  Deno.test(
    `refused: ${what}`,
    inFolder((folder) => {
      write(folder, make);
      const message = refusal(() => open(`${folder}/t.bin`, { val_samples: 0, ...data }, model));
      for (const sentence of sentences) assert(message.includes(sentence), message);
      assert(message.includes("t.bin") && message.endsWith("."), message);
    }),
  );
}

Deno.test(
  "refused: a folder without training tokens, a file that is not there",
  inFolder((folder) => {
    assert(refusal(() => open(folder)).includes("has no file of training tokens in it"));
    assert(refusal(() => open(`${folder}/no.bin`)).includes("there is no such file"));
  }),
);

Deno.test(
  "a text is its bytes, and says how many bits a byte takes",
  inFolder((folder) => {
    const texts: [string, Uint8Array<ArrayBuffer>][] = [
      ["english", new TextEncoder().encode("To be, or not to be!\n".repeat(99))],
      ["chinese", new TextEncoder().encode("天地玄黄宇宙洪荒日月盈昃".repeat(9999))],
    ];
    for (const [name, bytes] of texts) {
      Deno.writeFileSync(`${folder}/${name}.bin`, bytes);
      const { train, val, notes } = open(`${folder}/${name}.bin`, { validation_split: 0.1 });
      assert(notes[0].startsWith("Tokens are the bytes of a text; 1 file"), notes[0]);
      assertEquals([train.facts.outputs, train.bytesPerToken, val!.bytesPerToken], [256, 1, 1]);
      const [[input]] = windows(val!, [0]), begin = bytes.length - Math.floor(bytes.length * 0.1);
      assertEquals(input, [...bytes.subarray(begin, begin + 8)]);
    }
    const latin1 = Uint8Array.from("alle, die müde sind, oder nicht\n".repeat(99), (c) => c.charCodeAt(0));
    Deno.writeFileSync(`${folder}/latin1.bin`, latin1);
    const sentence = refusal(() => open(`${folder}/latin1.bin`, { validation_split: 0.1 }));
    assert(sentence.includes("latin1.bin is not UTF-8 (byte 11, counted from 0)"), sentence);
    assert(sentence.includes("iconv") && sentence.includes("--token-type uint8"), sentence);
    assertEquals(open(`${folder}/latin1.bin`, { token_type: "uint8" }).train.facts.outputs, 256);
    Deno.mkdirSync(`${folder}/mixed`);
    Deno.writeFileSync(`${folder}/mixed/train.bin`, texts[0][1]);
    Deno.writeFileSync(
      `${folder}/mixed/val.bin`,
      new Uint8Array(Uint16Array.from({ length: 99 }, (_, i) => i).buffer),
    );
    assert(refusal(() => open(`${folder}/mixed`)).includes("train.bin is text, and other files of"));
  }),
);

Deno.test(
  "auto takes a folder with train.bin for tokens",
  inFolder((folder) => {
    Deno.mkdirSync(`${folder}/text`);
    Deno.writeFileSync(`${folder}/text/train.bin`, new Uint8Array(400));
    assertEquals(opened({ data_path: `${folder}/text` }).train.facts.task, "language");
    const { kind, message } = refusedData({ type: "tokens" });
    assertEquals(kind, "usage");
    assert(message.includes("needs --data-path"), message);
  }),
);
