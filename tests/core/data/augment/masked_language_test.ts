// Hidden tokens: the shares, words, special tokens, the real collator's rule by given draws, and the same tokens in memory,
// from files and in any order.
import { assert, assertAlmostEquals, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import {
  BEGINS,
  ENDS,
  hideTokens,
  type Masks,
  SPECIAL,
} from "../../../../core/data/augment/masked_language.ts";
import { listOf } from "../../../../core/data/augment/list.ts";
import { batchOf, plainPart, type Source } from "../../../../core/data/source/source.ts";
import { vocabularyBeside, vocabularyOf } from "../../../../core/data/text/vocabulary.ts";
import { BYTE_TOKENIZER } from "../../../../core/data/text/tokenizer.ts";
import { key, uniform } from "../../../../core/base/random.ts";
import { exportedModel } from "../../../../core/models/exported/model.ts";
import { forward } from "../../../../core/models/model.ts";
import { tensor, toNumbers } from "../../../../ffi/make.ts";
import { scope, type Tensor } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { askPeer } from "../../../peer.ts";
import { assertRefusal } from "../../../sentences.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { open } from "../streamed.ts";
import { range } from "../tables/help.ts";

useLibtorch();

const MASK = 99, SIZE = 90;

const masks = (more: Partial<Masks> = {}): Masks => ({
  ...{ share: 0.15, masked: 0.8, random: 0.1, wholeWords: false, mask: MASK, ignored: -100, size: SIZE },
  traits: new Uint8Array(100),
  ...more,
});

/** Windows of 64 in which every token is 7, and so many of them; the tokens and targets that are left. */
function hidden(count: number, of: Masks, token = (_: number) => 7) {
  const tokens: number[] = [], targets: number[] = [];
  for (let sample = 0; sample < count; sample++) {
    const at = uniform(key(1, "test", sample));
    const row = Int32Array.from({ length: 64 }, (_, i) => token(i)), target = new Int32Array(64);
    hideTokens(of, row, target, (place, choice) => at(4 * place + choice));
    tokens.push(...row);
    targets.push(...target);
  }
  return { tokens, targets };
}

/** Five deviations of a share of so many. */
const near = (found: number, share: number, of: number, what: string) =>
  assert(
    Math.abs(found / of - share) < 5 * Math.sqrt(share * (1 - share) / of),
    `${what}: ${found / of} of ${of}`,
  );

Deno.test("15% of tokens are hidden, of which 80% become the mask, 10% any token of the vocabulary and 10% stay", () => {
  const { tokens, targets } = hidden(4000, masks()), all = tokens.length;
  const chosen = range(0, all).filter((i) => targets[i] !== -100);
  near(chosen.length, 0.15, all, "hidden");
  assert(chosen.every((i) => targets[i] === 7));
  assert(range(0, all).every((i) => targets[i] !== -100 || tokens[i] === 7));
  near(chosen.filter((i) => tokens[i] === MASK).length, 0.8, chosen.length, "masked");
  near(chosen.filter((i) => tokens[i] === 7).length, 0.1 + 0.1 / SIZE, chosen.length, "the same");
  const counts = new Array(SIZE).fill(0);
  for (const i of chosen) if (tokens[i] !== MASK && tokens[i] !== 7) counts[tokens[i]]++;
  const others = counts.filter((_, token) => token !== 7), mean = others.reduce((a, b) => a + b, 0) / 89;
  near(mean * 89, 0.1 * 89 / SIZE, chosen.length, "random");
  // Chi-squared of 89 tokens: 88 in the mean, with a deviation of 13.
  const squares = others.reduce((sum, count) => sum + (count - mean) ** 2 / mean, 0);
  assert(squares > 40 && squares < 150, `random tokens are not alike: ${squares}`);
});

Deno.test("special tokens are never hidden, and the parts of a word are hidden together", () => {
  const traits = new Uint8Array(100);
  traits[1] = BEGINS;
  traits[3] = SPECIAL;
  // A word of three parts, and a special token behind it that ends the next.
  const text = (i: number) => [1, 2, 2, 1, 2, 2, 3, 2][i % 8];
  const { tokens, targets } = hidden(2000, masks({ wholeWords: true, traits, masked: 1, random: 0 }), text);
  let words = 0, chosen = 0;
  for (let at = 0; at < tokens.length; at += 8) {
    assertEquals([tokens[at + 6], targets[at + 6]], [3, -100]);
    for (const word of [[0, 1, 2], [3, 4, 5], [7]]) {
      const told = word.map((i) => targets[at + i] !== -100);
      assertEquals(new Set(told).size, 1, "a part of a word is hidden alone");
      assertEquals(word.map((i) => tokens[at + i] === MASK), told);
      words++;
      if (told[0]) chosen++;
    }
  }
  near(chosen, 0.15, words, "words");
  const { traits: ofBytes } = vocabularyOf(BYTE_TOKENIZER), byte = (c: string) => ofBytes[c.charCodeAt(0)];
  assertEquals([byte("a"), byte(" "), byte("\n"), ofBytes[256]], [0, BEGINS | ENDS, BEGINS | ENDS, SPECIAL]);
});

interface Told {
  readonly size: number;
  readonly tokens: readonly (readonly number[])[];
  readonly cases: Readonly<Record<string, { inputs: number[][]; labels: number[][] }>>;
  readonly model: { readonly ids: readonly (readonly number[])[]; readonly logits: readonly number[] };
}

Deno.test({
  name:
    "by given draws the real collator hides the same tokens, and a real BERT gets the masks that it takes beside them",
  sanitizeResources: false, // a library that is opened once for all graphs
  fn: inFolder(async (folder) => {
    const length = 16, samples = 40, at = uniform(key(3, "given"));
    const draws = range(0, samples * length * 4).map(at);
    const cases = {
      usual: {},
      other: { mlm_probability: 0.4, mask_replace_prob: 0.3, random_replace_prob: 0.5 },
      none: { mlm_probability: 0.5, mask_replace_prob: 0, random_replace_prob: 1 },
      words: { whole_word_mask: true, mask_replace_prob: 1, random_replace_prob: 0 },
    };
    const told: Told = await askPeer(
      new URL("./masked_language.py", import.meta.url),
      { folder, length, draws, cases, model: true },
    );
    const known = vocabularyBeside(folder)!;
    assertEquals([known.size, known.mask, known.padding], [told.size, 4, 0]);
    for (const [name, given] of Object.entries(cases)) {
      const text = Object.entries(given).map(([of, value]) => `${of}=${value}`).join(", ");
      const { masked } = listOf(`masked_language(${text})`)!;
      const { mlm_probability: share, mask_replace_prob, random_replace_prob: random, whole_word_mask } =
        masked!;
      const rule: Masks = {
        ...{ share, masked: mask_replace_prob, random, wholeWords: whole_word_mask, ignored: -100 },
        ...{ mask: known.mask!, size: known.size, traits: known.traits },
      };
      told.tokens.forEach((tokens, sample) => {
        const row = Int32Array.from(tokens), target = new Int32Array(length);
        hideTokens(rule, row, target, (place, choice) => draws[(sample * length + place) * 4 + choice]);
        assertEquals([...row], told.cases[name].inputs[sample], `${name}, sample ${sample}`);
        assertEquals([...target], told.cases[name].labels[sample], `${name}, targets of ${sample}`);
      });
    }
    const { train: { facts } } = await open(folder, "yes", {
      data: { augment: "masked_language" },
      training: { loss: "auto" },
      model: { context: length, name: "bert.pt2" },
    });
    assertEquals([facts.masked, facts.padding], [true, 0]);
    const model = exportedModel(`${folder}/bert.pt2`, { facts }), { ids, logits } = told.model;
    const given = BigInt64Array.from(ids.flat(), BigInt);
    const found = scope(() => [...toNumbers(forward(model, tensor(given, [ids.length, length])) as Tensor)]);
    model.root.free();
    found.forEach((value, i) => assertAlmostEquals(value, logits[i], 1e-5));
  }),
});

const rows = (source: Source, ids: readonly number[], epoch = 0) =>
  scope(() => {
    const { input, target } = batchOf(source, plainPart(ids, epoch)), length = input.shape[1];
    assertEquals([input.dtype, target.dtype], ["i64", "i64"]);
    const inputs = [...toNumbers(input)], targets = [...toNumbers(target)];
    return ids.map((_, i) => [inputs, targets].map((all) => all.slice(i * length, (i + 1) * length).join()));
  });

Deno.test(
  "what is hidden is a function of seed, epoch and sample: in memory and from files, in any batch; and validation's stays",
  inFolder(async (folder) => {
    const path = `${folder}/t.bin`;
    Deno.writeFileSync(
      path,
      new Uint8Array(Uint16Array.from({ length: 4000 }, (_, i) => i % 50 + i % 7).buffer),
    );
    const changes = {
      data: { augment: "masked_language(0.3)", windows: "fixed" as const, validation_split: 0.2 },
      training: { loss: "auto" as const },
      model: { context: 32 },
    };
    const held = await open(path, "yes", changes), read = await open(path, "no", changes);
    assertEquals(held.train.facts, read.train.facts);
    assertEquals([held.train.facts.masked, held.train.facts.outputs], [true, 57]); // 56, and a new one
    for (const which of ["train", "val"] as const) {
      const [a, b] = [held[which]!, read[which]!], ids = range(0, a.length);
      assert(!a.threaded && b.threaded);
      const all = rows(a, ids);
      assertEquals(rows(b, ids.toReversed()).toReversed(), all, which);
      assertEquals(ids.slice(3, 9).flatMap((id) => rows(a, [id])), all.slice(3, 9));
      assert(all.flat().some((row) => row.includes("56")));
      const again = rows(a, ids, 1);
      if (which === "val") assertEquals(again, all);
      else assertNotEquals(again, all);
      assertEquals(rows(b, ids, 1), again);
    }
    const other = await open(path, "yes", { ...changes, training: { loss: "auto", seed: 5 } });
    assertNotEquals(other.validation!.id, held.validation!.id);
    const next = await open(path, "yes", { ...changes, data: { ...changes.data, augment: "" } });
    assertNotEquals(next.validation!.id, held.validation!.id);
  }),
);

Deno.test("masks that can't be are refused, with what to do", async () => {
  const refusals = async (
    augment: string,
    model: Record<string, unknown> = {},
    data = {},
  ): Promise<unknown> => {
    try {
      await open("", "auto", {
        data: { type: "synthetic", val_samples: 0, augment, ...data },
        training: { loss: "auto" },
        model: { name: "gpt", context: 8, ...model },
      });
    } catch (error) {
      return error;
    }
  };
  for (
    const [name, augment, model] of [
      ["words without a tokenizer", "masked_language(whole_word_mask=true)", {}],
      ["no mask for a vocabulary that can't grow", "masked_language", { vocab_size: 64 }],
      ["several times in an epoch", "masked_language, repeated_augmentation(2)", {}],
      ["another transform of a text", "masked_language, horizontal_flip", {}],
      ["no text", "masked_language", { name: "mlp" }],
    ] as const
  ) assertRefusal("usage", `core/data/augment/masked_language: ${name}`, await refusals(augment, model));
  for (
    const [name, augment] of [
      ["more than all", "masked_language(0.15, mask_replace_prob=0.8, random_replace_prob=0.3)"],
      ["within a choice", "random_apply([masked_language])"],
      ["a share of none", "masked_language(0)"],
      ["no tokens", "masked_language(special_token_ids=cls)"],
    ] as const
  ) {
    assertRefusal(
      "usage",
      `core/data/augment/masked_language: ${name}`,
      assertThrows(() => listOf(augment), UserError),
    );
  }
});
