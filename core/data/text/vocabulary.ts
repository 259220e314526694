// Masks have to know of a text's tokens (masked_language) which are special, where words begin, and what stands for a
// hidden one. A tokenizer that cannot cut texts here, such as BERT's, tells it all the same.
import { isFile } from "../../base/files.ts";
import { UserError } from "../../base/errors.ts";
import { join } from "../../../deps/path.ts";
import { BEGINS, ENDS, SPECIAL, type Vocabulary } from "../augment/masked_language.ts";
import { piecesOf } from "./huggingface.ts";
import { tokenizerBeside } from "./open.ts";
import { PLAIN_BYTES, type Tokenizer } from "./tokenizer.ts";

const MASK = /^(\[MASK\]|<mask>|<\|mask\|>)$/i, PADDING = /^(\[PAD\]|<pad>|<\|pad\|>|<\|padding\|>)$/i;

type Special = readonly (readonly [name: string, token: number])[];

/** `traitOf` tells it of each token that is not special. */
function vocabulary(size: number, special: Special, traitOf: (token: number) => number): Vocabulary {
  const traits = new Uint8Array(new SharedArrayBuffer(size));
  for (let token = 0; token < size; token++) traits[token] = traitOf(token);
  for (const [, token] of special) traits[token] = SPECIAL;
  const named = (names: RegExp) => special.find(([name]) => names.test(name))?.[1] ?? null;
  return { size, mask: named(MASK), padding: named(PADDING), traits };
}

const isSpace = (byte: number): boolean => byte === 0x20 || byte >= 0x09 && byte <= 0x0d;

/** White space lies between words, at the front of a token or behind it. */
export function vocabularyOf({ vocabulary: size, special = [], bytesOf, end }: Tokenizer): Vocabulary {
  const ends: Special = end === null ? [] : [["", end]];
  return vocabulary(size, [...special, ...ends], (token) => {
    const bytes = bytesOf(token);
    if (bytes.length === 0) return 0;
    return (isSpace(bytes[0]) ? BEGINS : 0) | (isSpace(bytes[bytes.length - 1]) ? ENDS : 0);
  });
}

const OTHER = "tokenizer.json";

/** That of the tokenizer that packed the folder, or of a tokenizer.json that lies there; null where there is none. */
export function vocabularyBeside(data_path: string): Vocabulary | null {
  const own = tokenizerBeside({ data_path });
  if (own) return vocabularyOf(own);
  const path = join(data_path, OTHER);
  if (!isFile(path)) return null;
  const { size, special, pieces, begins } = piecesOf(readText(path), path);
  return vocabulary(size, special, (token) => begins(pieces.get(token) ?? "") ? BEGINS : 0);
}

export const vocabularyOfBytes = (): Vocabulary => vocabularyOf(PLAIN_BYTES);

function readText(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (cause) {
    throw new UserError("data", `${path} can't be read by this user: make it readable.`, { cause });
  }
}
