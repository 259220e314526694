// A packed corpus: whole documents on one side, whatever the files they are in, and sentences for bad text and tokenizers.
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "paths";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { UserError } from "../../../../core/base/errors.ts";
import { corpusFiles, textPieces } from "../../../../core/data/text/corpus.ts";
import { isProse } from "../../../../core/data/text/prose.ts";
import { fromHuggingFace } from "../../../../core/data/text/huggingface.ts";
import { fromTiktoken, openTokenizer } from "../../../../core/data/text/open.ts";
import { packText, type TextPlan } from "../../../../core/data/text/pack.ts";
import { decode, type Tokenizer } from "../../../../core/data/text/tokenizer.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { hostileTexts } from "./hostile.ts";
import { madeTokenizer } from "./made_tokenizer.ts";
import { sentenceNamed } from "../../../sentences.ts";

const DOCUMENTS = Array.from(
  { length: 60 },
  (_, i) => `Document ${i}: ${"naïve words 漢字 of it, ".repeat(3 + i % 5)}end.`,
);

const plan = (folder: string, files: string[], more: Partial<TextPlan> = {}): TextPlan => ({
  files: files.map((file) => join(folder, file)),
  out: join(folder, "out"),
  tokenizer: "bytes",
  ...{ field: "text", separator: "", special: false, share: 0.1, seed: 1, progress() {} },
  ...more,
});

function documentsIn(path: string, tokenizer: Tokenizer): string[] {
  const tokens = new Uint16Array(Deno.readFileSync(path).buffer), found: string[] = [];
  for (let at = 0; at < tokens.length;) {
    const place = tokens.indexOf(tokenizer.end!, at), end = place < 0 ? tokens.length : place;
    found.push(decode(tokenizer, tokens.subarray(at, end)));
    at = end + 1;
  }
  return found;
}

/** The documents to train and to validate with. */
async function packed(folder: string, files: string[], more: Partial<TextPlan> = {}) {
  const out = join(folder, crypto.randomUUID()), made = await packText(plan(folder, files, { ...more, out }));
  const tokenizer = openTokenizer(made.tokenizer === "bytes" ? "bytes" : join(out, made.tokenizer));
  const sides = ["train", "val"].map((side) => documentsIn(join(out, `${side}.bin`), tokenizer));
  return { made, sides, tokens: Deno.readFileSync(join(out, "train.bin")) };
}

Deno.test(
  "documents are whole and on one side, equal ones too, in any kind of file and any order of files",
  inFolder(async (folder) => {
    const write = (name: string, bytes: string | Uint8Array<ArrayBuffer>) =>
      Deno.writeFileSync(
        join(folder, name),
        typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes,
      );
    const all = [...DOCUMENTS, ...DOCUMENTS.slice(0, 30)];
    const lines = all.map((text) => JSON.stringify({ id: 1, text })).join("\n");
    write("a.jsonl", lines + "\n\n");
    const frames = [lines.slice(0, 777), lines.slice(777)].map((part) => [...zstdCompressSync(part)]);
    write("a.jsonl.zst", Uint8Array.from(frames.flat()));
    write(
      "a.jsonl.gz",
      Uint8Array.from([lines.slice(0, 777), lines.slice(777)].flatMap((part) => [...gzipSync(part)])),
    );
    write("a.txt", "\ufeff" + all.join("\n<|sep|>"));
    const one = await packed(folder, ["a.jsonl"]);
    const [train, val] = one.sides;
    assertEquals([...train, ...val].sort(), [...all].sort());
    assertEquals(val.filter((text) => train.includes(text)), []);
    const held = val.join("").length / all.join("").length;
    assert(held >= 0.08 && held <= 0.11, `${held}`);
    assertEquals(one.made.val, {
      documents: val.length,
      bytes: one.made.val!.bytes,
      tokens: one.made.val!.bytes + val.length,
    });

    for (const file of ["a.jsonl.gz", "a.jsonl.zst"]) {
      assertEquals((await packed(folder, [file])).tokens, one.tokens);
    }
    const text = await packed(folder, ["a.txt"], { separator: "\n<|sep|>" });
    assertEquals(text.sides, one.sides);
    all.forEach((text, i) => write(`d${String(99 - i).padStart(2, "0")}.txt`, text));
    const files = await packed(
      folder,
      corpusFiles([join(folder, "d*.txt")]).map((path) => path.slice(folder.length + 1)),
    );
    assertEquals(files.sides.map((side) => side.sort()), one.sides.map((side) => side.sort()));
    const other = await packed(folder, ["a.jsonl"], { seed: 2 });
    assert(other.sides[1].join() !== val.join());

    // One document: its end validates.
    write("one.txt", DOCUMENTS.join("\n"));
    write("own.json", madeTokenizer().json);
    const { made } = await packed(folder, ["one.txt"], { share: 0.2, tokenizer: join(folder, "own.json") });
    assertEquals([made.by, made.train.documents, made.val!.documents], ["ends", 0, 1]);
    assertEquals(Math.round(10 * made.val!.bytes / made.train.bytes), Math.round(10 * 0.2 / 0.8));
    assert(made.train.tokens < made.train.bytes / 2);
    const none = await packText(plan(folder, ["one.txt"], { share: 0 }));
    assertEquals([none.val, none.by], [null, "nothing"]);
  }),
);

Deno.test(
  "a long document gives the same tokens in pieces as whole",
  inFolder(async (folder) => {
    const { json, ranks } = madeTokenizer();
    const tokenizers = [
      fromHuggingFace(json, "tokenizer.json"),
      ...(["gpt2", "cl100k", "o200k"] as const).map((pattern) => fromTiktoken(ranks, "x.tiktoken", pattern)),
    ];
    const text = [...hostileTexts(400).slice(12), ...DOCUMENTS].map((text, i) =>
      `${text} word ${i} and\nmore `
    ).join("");
    Deno.writeTextFileSync(join(folder, "long.txt"), text);
    for (const tokenizer of tokenizers) {
      const found: number[] = [];
      let pieces = 0;
      const options = { field: "", separator: "", cuts: true, piece: 200 };
      for await (const piece of textPieces(join(folder, "long.txt"), options)) {
        found.push(...tokenizer.encode(piece.text));
        pieces++;
      }
      assert(pieces > 50);
      assertEquals(found, [...tokenizer.encode(text)]);
    }
  }),
);

Deno.test(
  "a text file is told from a table by its numbers",
  inFolder((folder) => {
    const cases: [string, boolean][] = [
      [
        "It was a bright cold day in April 1984,\nand the clocks were striking thirteen, as they do there in spring at 13 hours.\nAnd so on.",
        true,
      ],
      ["# x y\n1 2\n3 4\n", false],
      ["name,height\nAnna,1.70\nBert,1.80\n", false],
      ["", false],
    ];
    for (const [text, prose] of cases) {
      const path = join(folder, "a.txt");
      Deno.writeTextFileSync(path, text);
      assertEquals(isProse(path), prose, text);
    }
    assertEquals(isProse(join(folder, "none.txt")), false);
  }),
);

Deno.test(
  "bad text is refused with its file and place",
  inFolder(async (folder) => {
    const cases: [string, string | Uint8Array<ArrayBuffer>, Partial<TextPlan>, string][] = [
      ["a.txt", " \n\t\n", {}, "there is no text in it"],
      [
        "a.txt",
        new Uint8Array([...new TextEncoder().encode("für alle".repeat(9)), 0xff, 65]),
        {},
        "is not UTF-8 (byte 81, counted from 0)",
      ],
      ["a.txt", new Uint8Array([65, 66, 0xe6, 0xbc]), {}, "is not UTF-8 (byte 2, counted from 0)"],
      [
        "a.jsonl",
        '{"text": "a"}\n{"text": "b',
        {},
        sentenceNamed("core/data/text/pack: jsonl json line"),
      ],
      [
        "a.jsonl",
        '{"body": "a", "n": 1}\n',
        {},
        sentenceNamed("core/data/text/pack: jsonl text text"),
      ],
      ["a.jsonl", "[1]\n", {}, "each line should be an object such as"],
      ["a.jsonl", '{"text": "\\ud800"}\n', {}, "has half a character in it"],
      [
        "a.txt.gz",
        new Uint8Array(gzipSync("words ".repeat(9999))).slice(0, 60),
        {},
        "it is truncated or damaged",
      ],
      [
        "a.txt.zst",
        new Uint8Array(zstdCompressSync("words ".repeat(9999))).slice(0, 20),
        {},
        "it is truncated or damaged",
      ],
      ["a.txt", "words", { files: [join(folder, "none.txt")] }, "there is no such file"],
      ["a.txt", "words", { out: folder }, "is not empty (a.txt"],
      ["a.txt", "words", { out: join(folder, "a.txt") }, "is a file, and a corpus is packed into a folder"],
    ];
    for (const [name, bytes, more, says] of cases) {
      for (const { name } of Deno.readDirSync(folder)) {
        Deno.removeSync(join(folder, name), { recursive: true });
      }
      Deno.writeFileSync(
        join(folder, name),
        typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes,
      );
      const error = await assertRejects(() => packText(plan(folder, [name], more)), UserError);
      assertStringIncludes(error.message, says);
    }
    const error = assertThrows(() => corpusFiles([folder + "/*.md"]), UserError);
    assertStringIncludes(error.message, folder);
  }),
);

Deno.test("a bad tokenizer is refused with what is wrong in it", () => {
  const { json, ranks } = madeTokenizer();
  const changed = (change: (file: ReturnType<typeof JSON.parse>) => void) => {
    const file = JSON.parse(json);
    change(file);
    return JSON.stringify(file);
  };
  const bad: [string, string][] = [
    [json.slice(0, 500), "Is it truncated?"],
    ["[1]", 'it has no "model" in it'],
    [changed((file) => file.model.merges.push(["zz", "yy"])), "is not of tokens in its vocabulary"],
    [changed((file) => file.model.vocab.a = -1), 'the token "a" has the number -1'],
    [
      changed((file) => file.model = { type: "WordPiece", vocab: {} }),
      sentenceNamed("core/data/text/pack: model type wordpiece"),
    ],
    [changed((file) => file.model = { type: "Unigram", vocab: [] }), "a model of type Unigram"],
    [changed((file) => file.model.byte_fallback = true), "byte_fallback"],
    [changed((file) => file.pre_tokenizer = { type: "Metaspace" }), "the pre_tokenizer Metaspace"],
    [changed((file) => file.normalizer = { type: "Precompiled" }), "the normalizer Precompiled"],
    [changed((file) => file.added_tokens = [{ content: 1 }]), '"added_tokens" has {"content":1}'],
    [
      changed((file) =>
        file.pre_tokenizer = {
          type: "Sequence",
          pretokenizers: [
            { type: "Split", pattern: { Regex: "(?>a)" }, behavior: "Isolated" },
            file.pre_tokenizer,
          ],
        }
      ),
      "cuts texts by the regular expression (?>a)",
    ],
  ];
  for (const [text, says] of bad) {
    assertStringIncludes(
      assertThrows(() => fromHuggingFace(text, "tokenizer.json"), UserError).message,
      says,
    );
  }
  const badRanks: [string, string][] = [
    [ranks.split("\n").slice(0, 99).join("\n"), sentenceNamed("core/data/text/pack: rank every text")],
    [`${ranks}\nYWFhYWFh`, "should be a token in base64 and its rank"],
    [`${ranks}\n***** 999`, 'has "*****", which is no base64'],
    [`${ranks}\nYWFhYWFh 3`, sentenceNamed("core/data/text/pack: token rank earlier")],
  ];
  for (const [text, says] of badRanks) {
    assertStringIncludes(
      assertThrows(() => fromTiktoken(text, "r50k_base.tiktoken"), UserError).message,
      says,
    );
  }
  assertStringIncludes(
    assertThrows(() => fromTiktoken(ranks, "mine.tiktoken"), UserError).message,
    "does not say how texts are cut into words",
  );
  for (
    const [named, says] of [["none.json", "there is no such file"], ["/dev/null", "does not say by its name"]]
  ) {
    assertStringIncludes(assertThrows(() => openTokenizer(named), UserError).message, says);
  }
});

Deno.test("a vocabulary as large as o200k's is read", () => {
  const letters = (i: number) =>
    String.fromCharCode(97 + i % 26, 97 + Math.floor(i / 26) % 26, 97 + Math.floor(i / 676) % 26);
  const single = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte));
  const more = Array.from({ length: 200_000 }, (_, i) => letters(i) + letters(Math.floor(i / 17_576)));
  const ranks = [...single, ...new Set(more)].map((token, rank) => `${btoa(token)} ${rank}`);
  const tokenizer = fromTiktoken(ranks.join("\n"), "o.tiktoken", "o200k");
  assertEquals([tokenizer.vocabulary, tokenizer.end], [ranks.length + 1, ranks.length]);
  assertEquals([...tokenizer.encode(more[70_000])], [256 + 70_000]);
});
