// A tokenizer whose tokens are bytes and the beginnings of words. Test helper.
import { byteChars, fromHuggingFace } from "../../../../core/data/text/huggingface.ts";

const END = "<|endoftext|>";

const WORDS = "the quick brown fox words document don end more and naïve word of it".split(" ");

/** A tokenizer.json whose tokens are bytes and the beginnings of these words, and the same ones as a .tiktoken file. */
export function madeTokenizer(words: readonly string[] = WORDS): { json: string; ranks: string } {
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, use_regex: true };
  const begins = new Map<string, readonly [string, string]>();
  for (const word of words) {
    const chars = [...byteChars(new TextEncoder().encode(` ${word}`))];
    chars.slice(1).forEach((char, i) => {
      const before = chars.slice(0, i + 1).join("");
      begins.set(before + char, [before, char]);
    });
  }
  const merges = [...begins.values()];
  const bytes = Array.from({ length: 256 }, (_, byte) => byteChars(Uint8Array.of(byte))).sort();
  const tokens = [END, ...bytes, ...merges.map((pair) => pair.join(""))];
  const json = JSON.stringify(
    {
      version: "1.0",
      added_tokens: [{ id: 0, content: END, special: true }],
      normalizer: null,
      pre_tokenizer: byteLevel,
      decoder: byteLevel,
      model: { type: "BPE", vocab: Object.fromEntries(tokens.map((token, id) => [token, id])), merges },
    },
    null,
    1,
  );
  const tokenizer = fromHuggingFace(json, "tokenizer.json");
  const ranks = tokens.slice(1).map((_, i) =>
    `${btoa(String.fromCharCode(...tokenizer.bytesOf(i + 1)))} ${i}`
  );
  return { json, ranks: ranks.join("\n") };
}
