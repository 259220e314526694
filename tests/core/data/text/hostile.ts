// Texts that tokenizers get wrong: characters of all planes, marks, long runs, line ends of all kinds.
import { key, uniformInt } from "../../../../core/base/random.ts";

const PIECES = [
  ..."aZeé ßİıſK0９٣½Ⅷ!?-_/'\"\\.\n\r\t\v\f",
  "\r\n",
  "\u0085",
  "\ufeff",
  "\u00a0",
  "\u2028",
  "\u2003",
  "\u3000",
  "\u200d",
  "\u200b",
  "\u0301",
  "\u0327\u0301",
  "\u0000",
  "\u001b[31m",
  "\u007f",
  "\u00ad",
  "e\u0301",
  "ﬁ",
  "각",
  "가",
  "漢字",
  "かな",
  "עברית",
  "العربية",
  "हिन्दी",
  "ไทย",
  "👍🏽",
  "👩‍👩‍👧‍👦",
  "🇦🇹",
  "𝒜𝟘",
  "\u{10FFFF}",
  "\u{E0061}",
  "\uE000",
  "the ",
  " don't",
  " DON'T",
  "'LL",
  "'ſ",
  "'re've",
  "12345678",
  "3.14",
  "<|endoftext|>",
  "<|endoftext",
  "[PAD]",
  " [X] ",
  "snake_case",
  "CamelCaseHTTP",
  "https://a.b/c?d=e",
  "\n\n\n",
  "   ",
  " \n ",
  "\t\t",
  "....",
  "),\n",
  "=".repeat(20),
];

/** Drawn from a key, so that a failure comes again. */
export function hostileTexts(count: number): string[] {
  const draw = uniformInt(key(7, "hostile texts"), 2 ** 30);
  let at = 0;
  const below = (n: number) => draw(at++) % n;
  const any = (): string => {
    const plane = below(8);
    const point = plane < 3
      ? below(0x250)
      : plane < 6
      ? below(0x3100)
      : plane < 7
      ? below(0xd7ff)
      : 0x1f300 + below(0x300);
    return String.fromCodePoint(point);
  };
  const one = (): string => {
    const kind = below(12);
    if (kind < 7) return PIECES[below(PIECES.length)];
    if (kind < 9) return known(any());
    if (kind < 10) return PIECES[below(PIECES.length)].repeat(below(9));
    return String.fromCharCode(97 + below(26)).repeat(1 + below(3));
  };
  const drawn = Array.from({ length: count }, () => Array.from({ length: 1 + below(24) }, one).join(""));
  const runs = ["a", " ", "\n", "é", "👍", "\u0301", "ab", "0", "!", "\r\n", "aA"].map((part) =>
    part.repeat(3000)
  );
  return ["", ...runs, ...drawn];
}

/** Characters that came to Unicode of late are letters here and not yet there. */
const known = (char: string): string => /\p{Cn}|\p{Co}|\p{Cs}/u.test(char) || YOUNG.test(char) ? "?" : char;

const YOUNG =
  /[\u0870-\u089f\u08b5\u08be-\u08d3\u0c3c\u0c5c-\u0c5d\u0cdc-\u0cdd\u0cf3\u0ece\u1715\u171f\u180f\u1ac1-\u1aff\u1b4c-\u1b7f\u1c89-\u1c8a\u1dfa\u20c0\u2427-\u2429\u2c2f\u2c5f\u2e53-\u2e5d\u2ff0-\u2fff\u31e4-\u31ef\u9fed-\u9fff\ua7c0-\ua7ff]/u;
