// Masks of a text: a share of its tokens is hidden, and a model learns to tell them from those around them (BERT). The
// rule is that of Hugging Face's DataCollatorForLanguageModeling, with draws by sample and place.
import { chance, number, numbersOfTokens, optional, type Read, truth, whole } from "./arguments.ts";

const MOST_TOKENS = 2 ** 31 - 1;

/** Hugging Face's names. */
export const MASKED_LANGUAGE = {
  mlm_probability: number(0.15, { min: 0, above: true, max: 1 }),
  mask_replace_prob: chance(0.8),
  random_replace_prob: chance(0.1),
  whole_word_mask: truth(false),
  mask_token_id: optional(whole(undefined, { min: 0, max: MOST_TOKENS })),
  special_token_ids: optional(numbersOfTokens()),
};

export type MaskedLanguage = Read<typeof MASKED_LANGUAGE>;

/** Masks have to know this of a vocabulary. */
export interface Vocabulary {
  /** Random tokens are drawn of so many. */
  readonly size: number;
  readonly mask: number | null;
  /** Texts shorter than a window are filled with it. */
  readonly padding: number | null;
  /** Each token's traits, in shared memory for threads. */
  readonly traits: Uint8Array;
}

/** It is never hidden, and a word ends at it. */
export const SPECIAL = 1;
/** A word begins with it, or behind it. */
export const BEGINS = 2, ENDS = 4;

/** Plain data for threads. */
export interface Masks extends Pick<Vocabulary, "size" | "traits"> {
  readonly share: number;
  readonly masked: number;
  readonly random: number;
  readonly wholeWords: boolean;
  readonly mask: number;
  /** The target of a token that is not to be told. */
  readonly ignored: number;
}

/** A number in [0, 1) for each place of a window and each choice there. */
export type TokenDraw = (place: number, choice: number) => number;

export const CHOICES = 4;
const HIDDEN = 0, MASKED = 1, RANDOM = 2, TOKEN = 3;

/** Hides tokens of a window in place; `target` gets what they were. */
export function hideTokens(masks: Masks, tokens: Int32Array, target: Int32Array, draw: TokenDraw): void {
  const { share, masked, random, wholeWords, mask, ignored, size, traits } = masks;
  const afterMask = masked < 1 ? random / (1 - masked) : 0; // of those that are not masked
  let before = ENDS, hides = false;
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i], trait = traits[token] ?? 0;
    target[i] = ignored;
    const begins = !wholeWords || (before & (ENDS | SPECIAL)) !== 0 || (trait & BEGINS) !== 0;
    before = trait;
    if ((trait & SPECIAL) !== 0) continue;
    if (begins) hides = draw(i, HIDDEN) < share;
    if (!hides) continue;
    target[i] = token;
    if (draw(i, MASKED) < masked) tokens[i] = mask;
    else if (draw(i, RANDOM) < afterMask) tokens[i] = Math.floor(draw(i, TOKEN) * size);
  }
}
