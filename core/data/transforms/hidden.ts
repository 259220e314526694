// masked_language of --augment meets a source of texts: which token stands for hidden ones, and which are never hidden.
import { UserError } from "../../base/errors.ts";
import type { List } from "../augment/list.ts";
import { type MaskedLanguage, SPECIAL, type Vocabulary } from "../augment/masked_language.ts";
import { withHidden } from "../source/masked.ts";
import type { Source } from "../source/source.ts";

interface Hiding {
  readonly seed: number;
  /** The training samples are as they are judged. */
  readonly plain: boolean;
  readonly ignored: number;
  /** The model's vocabulary can't grow. */
  readonly settled: boolean;
}

interface Sources {
  readonly train: Source;
  readonly val: Source | null;
  readonly test?: Source | null;
}

const refusal = (why: string) => new UserError("usage", `--augment masked_language ${why}.`);

/** Without masks the sources as they are. */
export function hiddenBy<S extends Sources>(
  given: S,
  list: List | null,
  { seed, plain, ignored, settled }: Hiding,
  notes: string[],
): S {
  const masked = list?.masked;
  if (!list || !masked) return given;
  const { train } = given, { facts, name } = train;
  if (facts.task !== "language") {
    throw refusal(`hides tokens of texts, and ${name} holds none: leave it out`);
  }
  if (list.repeats > 1) {
    throw refusal(
      "hides other tokens in each epoch, and a text need not come several times in one: leave " +
        "repeated_augmentation out",
    );
  }
  if (train.input.shape.length !== 1) {
    throw refusal(`takes windows of tokens, and samples of ${name} are [${train.input.shape.join(", ")}]`);
  }
  const known = train.vocabulary?.() ?? null;
  if (masked.whole_word_mask && !known) {
    throw refusal(
      `(whole_word_mask=true) needs to know where words begin, and ${name} has no tokenizer beside its tokens: put its ` +
        "tokenizer.json into the folder, or leave whole_word_mask out",
    );
  }
  const mask = maskOf(masked, known, facts.outputs, settled);
  const outputs = Math.max(facts.outputs, mask + 1), padding = known?.padding;
  const masks = {
    ...{
      share: masked.mlm_probability,
      masked: masked.mask_replace_prob,
      random: masked.random_replace_prob,
    },
    ...{ wholeWords: masked.whole_word_mask, mask, ignored, size: known?.size ?? facts.outputs },
    traits: traitsOf(known, outputs, [mask, ...masked.special_token_ids ?? []]),
  };
  notes.push(noteOf(masked, mask, mask === facts.outputs));
  const hide = (source: Source, training: boolean): Source => {
    const made = withHidden(source, { masks, seed, training });
    const { shape } = made.input;
    const input = { ...source.facts.input, shape, dtype: "i64" as const };
    const more = padding === null || padding === undefined ? {} : { padding };
    return { ...made, facts: { ...source.facts, input, outputs, masked: true, ...more } };
  };
  const judged = (source: Source | null | undefined) => source ? hide(source, false) : source;
  return { ...given, train: hide(train, !plain), val: judged(given.val), test: judged(given.test) };
}

function maskOf(
  { mask_token_id: given }: MaskedLanguage,
  known: Vocabulary | null,
  outputs: number,
  settled: boolean,
): number {
  const own = given ?? known?.mask ?? null;
  if (own !== null) return own;
  if (!settled) return outputs;
  throw refusal(
    "does not know which token stands for a hidden one, as no tokenizer beside the data has a [MASK] or <mask>: name its " +
      "number, as in masked_language(0.15, mask_token_id=103)",
  );
}

function traitsOf(known: Vocabulary | null, outputs: number, special: readonly number[]): Uint8Array {
  const traits = new Uint8Array(new SharedArrayBuffer(Math.max(outputs, known?.size ?? 0)));
  if (known) traits.set(known.traits);
  for (const token of special) if (token < traits.length) traits[token] = SPECIAL;
  return traits;
}

function noteOf(masked: MaskedLanguage, mask: number, isNew: boolean): string {
  const percent = (share: number) => `${+(100 * share).toFixed(2)}%`;
  const { mlm_probability: share, mask_replace_prob: hidden, random_replace_prob: random } = masked;
  return `Hidden: ${percent(share)} of ${masked.whole_word_mask ? "words" : "tokens"}, of which ${
    percent(hidden)
  } become ` +
    `token ${mask}${isNew ? " (a new one)" : ""}, ${
      percent(random)
    } any token, and the rest stay; validation always hides the same`;
}
