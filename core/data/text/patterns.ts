// Texts are cut into words by a regular expression before their bytes are merged. Other libraries' expressions are
// translated: their \s, \d and \w mean Unicode's properties, and JavaScript's do not.
import { UserError } from "../../base/errors.ts";

const SPACE = "\\p{White_Space}", OTHER = "\\P{White_Space}";

/** GPT-2's as ByteLevel of Hugging Face's tokenizers has it. */
export const BYTE_LEVEL =
  `'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^${SPACE}\\p{L}\\p{N}]+|${SPACE}+(?!${OTHER})|${SPACE}+`;

const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";

/** tiktoken's, without the possessive quantifiers, which only make it faster. */
export const PATTERNS = {
  gpt2:
    `'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^${SPACE}\\p{L}\\p{N}]+|${SPACE}+$|${SPACE}+(?!${OTHER})|${SPACE}`,
  cl100k: "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" +
    `| ?[^${SPACE}\\p{L}\\p{N}]+[\\r\\n]*|${SPACE}+$|${SPACE}*[\\r\\n]|${SPACE}+(?!${OTHER})|${SPACE}`,
  o200k:
    `[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+${CONTRACTIONS}` +
    `|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*${CONTRACTIONS}` +
    `|\\p{N}{1,3}| ?[^${SPACE}\\p{L}\\p{N}]+[\\r\\n/]*|${SPACE}*[\\r\\n]+|${SPACE}+(?!${OTHER})|${SPACE}+`,
} as const;

export type PatternName = keyof typeof PATTERNS;

/** JavaScript has no such escapes, or gives them another meaning. */
const ESCAPES: Readonly<Record<string, string>> = {
  s: SPACE,
  S: OTHER,
  d: "\\p{Nd}",
  D: "\\P{Nd}",
};

/** Oniguruma's expression, which tokenizer.json has, as JavaScript's. */
export function translated(pattern: string, where: string): RegExp {
  let out = "", inClass = 0;
  // For each open group: whether something in it is repeated a varying number of times, or is one of several.
  const varying = [false];
  for (let i = 0; i < pattern.length; i++) {
    const char = pattern[i], next = pattern[i + 1] ?? "";
    if (char === "\\") {
      i++;
      const property = /^\\[pP]\{[^}]*\}/.exec(pattern.slice(i - 1));
      if (property) {
        out += property[0];
        i += property[0].length - 2;
      } else if (ESCAPES[next]) out += ESCAPES[next];
      else if (next === "w") out += word(inClass > 0);
      else if (/[A-Zac-mo-qu-z]/.test(next) && !/[pPnrtfvxu]/.test(next)) {
        throw unknown(pattern, where, `\\${next}`);
      } else if (/[\w^$\\.*+?()[\]{}|/]/.test(next) || (next === "-" && inClass > 0)) out += char + next;
      else out += next; // JavaScript escapes only what has a meaning
    } else if (inClass > 0) {
      if (char === "]") inClass--;
      else if (char === "[" || (char === "&" && next === "&")) throw unknown(pattern, where, "a set of sets");
      out += char;
    } else if (char === "[") {
      inClass++;
      out += char;
    } else if (/[+*?}]/.test(char) && next === "+") throw unknown(pattern, where, `${char}+`);
    else if (char === "$") out += "(?=\\n|$)";
    else if (char === "^") out += "(?<=\\n|^)";
    else out += char;
    if (inClass > 0 || char === "\\") continue;
    if (char === "(") varying.push(false);
    if (char === "|") varying[varying.length - 1] = true;
    const closes = char === ")" && varying.length > 1 && varying.pop()!;
    const repeats = char === "?" ? null : /^(?:[+*]|\{(\d+)(,?)(\d*)\})/.exec(pattern.slice(i + 1));
    if (
      closes && repeats && Number(repeats[3] || (repeats[2] ? Infinity : repeats[1] ?? Infinity)) > MOST_TIMES
    ) {
      throw endless(pattern, where);
    }
    if (closes || repeats && !/^\{(\d+)(?:,\1)?\}/.test(repeats[0])) varying[varying.length - 1] = true;
  }
  try {
    return new RegExp(out, "gu");
  } catch {
    throw unknown(pattern, where, "part of it");
  }
}

/** Word characters of Unicode. */
export const WORD = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";

const word = (inClass: boolean): string => inClass ? WORD : `[${WORD}]`;

/** More repetitions of a repetition, or of a choice, can be matched in too many ways. */
const MOST_TIMES = 8;

const PACK_WITH_PYTHON =
  "pack with Python's tokenizers into a flat file of uint16 or uint32, and train with that.";

const endless = (pattern: string, where: string) =>
  new UserError(
    "data",
    `${where} cuts texts by the regular expression ${pattern}, which repeats a group with a repetition or a choice in it: on ` +
      `some texts that takes for ever. Write it with one repetition, as a+ for (a+)+ and [ab]+ for (a|b)+; or ${PACK_WITH_PYTHON}`,
  );

const unknown = (pattern: string, where: string, what: string) =>
  new UserError(
    "data",
    `${where} cuts texts by the regular expression ${pattern}, of which ${what} is not known here: ${PACK_WITH_PYTHON}`,
  );
