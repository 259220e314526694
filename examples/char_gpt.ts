// A text, letter by letter, as data of one's own for the gpt of the zoo:
//   hpctrain --model gpt --data examples/char_gpt.ts --data-path shakespeare.txt --context 128 --layers 4 --epochs 5
import type { DataLibrary, MadeData, Samples } from "../core/models/user/templates/hpctrain.d.ts";

const CONTEXT = 64;

export default function ({ tensor, settings }: DataLibrary): MadeData {
  const text = [...Deno.readTextFileSync(settings.data_path)];
  const letters = [...new Set(text)].sort();
  const codes = BigInt64Array.from(text.map((letter) => BigInt(letters.indexOf(letter))));
  const held = Math.floor(0.9 * codes.length);
  if (codes.length - held <= CONTEXT) throw new Error(`the text is too short: ${codes.length} letters`);

  // Sample i is the i-th window of the text; its target is the same window one letter later.
  const windows = (part: BigInt64Array): Samples => ({
    length: Math.floor((part.length - 1) / CONTEXT),
    batch(ids) {
      const rows = (offset: number) => {
        const all = new BigInt64Array(ids.length * CONTEXT);
        ids.forEach((id, row) => {
          const from = id * CONTEXT + offset;
          all.set(part.subarray(from, from + CONTEXT), row * CONTEXT);
        });
        return tensor(all, [ids.length, CONTEXT]);
      };
      return { input: rows(0), target: rows(1) };
    },
  });
  return {
    task: "language",
    outputs: letters.length,
    train: windows(codes.subarray(0, held)),
    val: windows(codes.subarray(held)),
  };
}
