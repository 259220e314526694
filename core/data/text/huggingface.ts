// Hugging Face's tokenizer.json: byte-level BPE, as GPT-2, Llama 3, Qwen and most newer models have it. Other kinds are
// refused by their names.
import { basename } from "../../../deps/path.ts";
import { messageOf, UserError } from "../../base/errors.ts";
import { byteKey, namesPattern, PairTable, type Tokenizer, TokenList, WordEncoder } from "./tokenizer.ts";
import { BYTE_LEVEL, translated, WORD } from "./patterns.ts";

type Json = Readonly<Record<string, unknown>>;

interface Added {
  readonly id: number;
  readonly content: string;
  readonly single_word: boolean;
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  readonly normalized: boolean;
  readonly special: boolean;
}

/** From words to smaller words. */
type Cut = (text: string) => readonly string[];

export function fromHuggingFace(text: string, path: string): Tokenizer {
  const file = parsed(text, path);
  const model = objectIn(file, "model", path);
  const vocab = tokensIn(model, path), merges = mergesIn(model, vocab, path);
  checkModel(model, path);
  const normalise = normaliserOf(file.normalizer, path);
  const cuts = cutsOf(file.pre_tokenizer, path);
  const added = addedIn(file, path);
  const bytes = Int32Array.from(BYTE_CHARS, (char) => vocab.get(char) ?? -1);
  const words = new WordEncoder({
    ...{ pairs: merges, bytes },
    whole: model.ignore_merges === true ? byKeys(vocab) : null,
    unknown: unknownOf(model, vocab),
  });
  const into = new TokenList();
  const plain = (text: string) => {
    let parts: readonly string[] = text === "" ? [] : [text];
    for (const cut of cuts) parts = parts.length === 1 ? cut(parts[0]) : parts.flatMap(cut);
    for (const part of parts) words.encode(part, into);
  };
  const raw = finderOf(added.filter(({ normalized }) => !normalized));
  const normalised = finderOf(
    added.flatMap((one) => one.normalized ? [{ ...one, content: normalise(one.content) }] : []),
  );
  const texts = new Map<number, Uint8Array>();
  for (const [token, id] of vocab) texts.set(id, bytesOfToken(token));
  for (const { id, content } of added) texts.set(id, new TextEncoder().encode(content));
  const push = (id: number) => into.push(id);
  return {
    name: basename(path),
    vocabulary: [...texts.keys()].reduce((most, id) => Math.max(most, id), 0) + 1,
    end: endOf(added),
    special: specialIn(added),
    cuts: file.pre_tokenizer !== null && !prefixesSpace(file.pre_tokenizer as Json) &&
      !added.some(({ content, lstrip, rstrip }) => /\s/.test(content) || lstrip || rstrip),
    encode(text, special = false) {
      raw(text, special, push, (rest) => normalised(normalise(rest), special, push, plain));
      return into.taken();
    },
    bytesOf: (token) => texts.get(token) ?? new Uint8Array(),
  };
}

const specialIn = (added: readonly Added[]) =>
  added.filter(({ special }) => special).map(({ content, id }) => [content, id] as const);

interface Pieces {
  readonly size: number;
  readonly special: readonly (readonly [name: string, token: number])[];
  /** The names of tokens, as the file has them. */
  readonly pieces: ReadonlyMap<number, string>;
  begins(piece: string): boolean;
}

/** The tokens of any tokenizer.json, and which of them begin words: WordPiece writes ## before the others, Unigram ▁ before these. */
export function piecesOf(text: string, path: string): Pieces {
  const file = parsed(text, path), model = objectIn(file, "model", path);
  const special = specialIn(addedIn(file, path));
  const { vocab } = model, prefix = model.continuing_subword_prefix;
  const listed = Array.isArray(vocab)
    ? vocab.map((one: unknown, id) => [Array.isArray(one) ? String(one[0]) : String(one), id] as const)
    : Object.entries(objectIn(model, "vocab", path)).map(([piece, id]) => [piece, Number(id)] as const);
  const pieces = new Map([...listed, ...special].map(([piece, id]) => [id, piece]));
  const size = [...pieces.keys()].reduce((most, id) => Math.max(most, id), -1) + 1;
  if (!(size > 0 && size <= MOST_TOKENS)) throw bad(path, "its vocabulary has no numbers of tokens");
  return {
    ...{ size, special, pieces },
    begins: typeof prefix === "string" && prefix !== ""
      ? (piece) => !piece.startsWith(prefix)
      : (piece) => /^[▁Ġ]/u.test(piece),
  };
}

function parsed(text: string, path: string): Json {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch (cause) {
    const why = `${path} is no tokenizer.json: ${messageOf(cause)}. Is it truncated? Copy it again.`;
    throw new UserError("data", why, { cause });
  }
  if (file !== null && typeof file === "object" && !Array.isArray(file) && "model" in file) {
    return file as Json;
  }
  throw bad(path, 'it has no "model" in it, as the tokenizer.json of Hugging Face\'s tokenizers has');
}

const bad = (path: string, what: string) =>
  new UserError("data", `${path} is no tokenizer that can be used: ${what}.`);

const other = (path: string, what: string) =>
  bad(
    path,
    `it has ${what}, and of tokenizer.json byte-level BPE alone is read here. Make tokens of your text in Python, as a ` +
      "flat file of uint16 or uint32, and train with that",
  );

function objectIn(of: Json, name: string, path: string): Json {
  const found = of[name];
  if (found !== null && typeof found === "object") return found as Json;
  throw bad(path, `"${name}" should be an object`);
}

function checkModel(model: Json, path: string): void {
  if (model.byte_fallback === true) throw other(path, "byte_fallback, as of SentencePiece");
  if (model.dropout) throw other(path, `dropout (${model.dropout})`);
  for (const name of ["continuing_subword_prefix", "end_of_word_suffix"]) {
    if (model[name]) throw other(path, `${name} "${model[name]}"`);
  }
}

function tokensIn(model: Json, path: string): Map<string, number> {
  const { type = "BPE" } = model;
  if (type !== "BPE" || !("merges" in model)) throw other(path, `a model of type ${type}`);
  const vocab = new Map<string, number>();
  for (const [token, id] of Object.entries(objectIn(model, "vocab", path))) {
    if (!Number.isInteger(id) || (id as number) < 0 || (id as number) >= MOST_TOKENS) {
      throw bad(path, `the token "${token}" has the number ${id}`);
    }
    vocab.set(token, id as number);
  }
  if (vocab.size === 0) throw bad(path, "its vocabulary is empty");
  return vocab;
}

const MOST_TOKENS = 2 ** 21;

/** Each is "left right", or [left, right] in newer files. */
function mergesIn({ merges }: Json, vocab: ReadonlyMap<string, number>, path: string): PairTable {
  if (!Array.isArray(merges)) throw bad(path, '"merges" should be a list');
  const pairs = new PairTable(merges.length);
  merges.forEach((merge: unknown, rank) => {
    const parts = typeof merge === "string" ? merge.split(" ") : merge as string[];
    const ids = Array.isArray(parts) && parts.length === 2
      ? [parts[0], parts[1], parts[0] + parts[1]].map((token) => vocab.get(token))
      : [undefined];
    if (ids.includes(undefined)) {
      throw bad(
        path,
        `merge ${rank} (counted from 0), ${JSON.stringify(merge)}, is not of tokens in its vocabulary`,
      );
    }
    pairs.set(ids[0]!, ids[1]!, rank, ids[2]!);
  });
  return pairs;
}

function unknownOf(model: Json, vocab: ReadonlyMap<string, number>) {
  const token = typeof model.unk_token === "string" ? vocab.get(model.unk_token) : undefined;
  return token === undefined ? null : { token, fused: model.fuse_unk === true };
}

// ByteLevel writes each byte as a character that can be seen.

/** By byte. */
const BYTE_CHARS: readonly string[] = (() => {
  const seen = (byte: number) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let other = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(seen(byte) ? byte : other++));
})();

export const byteChars = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => BYTE_CHARS[byte]).join("");

const BYTES = new Map(BYTE_CHARS.map((char, byte) => [char, byte]));

/** A token that is not made of such characters is plain text. */
function bytesOfToken(token: string): Uint8Array {
  const bytes = Array.from(token, (char) => BYTES.get(char));
  return bytes.includes(undefined) ? new TextEncoder().encode(token) : Uint8Array.from(bytes as number[]);
}

const byKeys = (vocab: ReadonlyMap<string, number>): Map<string, number> =>
  new Map(
    [...vocab].filter(([token]) => [...token].every((char) => BYTES.has(char)))
      .map(([token, id]) => [byteKey(bytesOfToken(token)), id]),
  );

// A text is normalised before it is cut.

function normaliserOf(given: unknown, path: string): (text: string) => string {
  if (given === null || given === undefined) return (text) => text;
  const { type, normalizers } = given as Json;
  switch (type) {
    case "NFC":
    case "NFD":
    case "NFKC":
    case "NFKD":
      return (text) => text.normalize(type);
    case "Lowercase": // character by character, without Greek's final sigma
      return (text) => Array.from(text, (char) => char.toLowerCase()).join("");
    case "Sequence": {
      const all = (normalizers as unknown[]).map((one) => normaliserOf(one, path));
      return (text) => all.reduce((text, one) => one(text), text);
    }
    default:
      throw other(path, `the normalizer ${type}`);
  }
}

// How a text is cut into words.

/** The last makes bytes of words. */
function cutsOf(given: unknown, path: string): readonly Cut[] {
  const all = given === null || given === undefined ? [] : inSequence(given as Json);
  if (all.at(-1)?.type !== "ByteLevel") {
    throw other(
      path,
      all.length === 0 ? "no pre_tokenizer" : `the pre_tokenizer ${all.map(({ type }) => type)}`,
    );
  }
  return all.flatMap((one, i) => cutOf(one, i === all.length - 1, path));
}

const inSequence = (given: Json): Json[] =>
  given.type === "Sequence" ? (given.pretokenizers as Json[]).flatMap(inSequence) : [given];

function cutOf(given: Json, last: boolean, path: string): Cut[] {
  const { type } = given;
  if (type === "ByteLevel" && last) {
    const prefix: Cut[] = given.add_prefix_space === true
      ? [(text) => [text.startsWith(" ") ? text : ` ${text}`]]
      : [];
    return given.use_regex === false
      ? prefix
      : [...prefix, splitBy(new RegExp(BYTE_LEVEL, "gu"), "Isolated")];
  }
  if (type === "Digits") {
    return [splitBy(given.individual_digits === true ? /\p{N}/gu : /\p{N}+/gu, "Isolated")];
  }
  if (type === "Split") {
    const pattern = given.pattern as { Regex?: string; String?: string };
    const found = pattern.String === undefined
      ? translated(pattern.Regex ?? "", path)
      : namesPattern([pattern.String])!;
    const behaviour = given.behavior;
    if (given.invert !== true && behaviour === "Isolated") return [splitBy(found, "Isolated")];
    if (behaviour === "Removed") return [splitBy(found, given.invert === true ? "Kept" : "Removed")];
    if (given.invert === true && behaviour === "Isolated") return [splitBy(found, "Isolated")];
    throw other(path, `a Split whose behavior is ${behaviour}`);
  }
  throw other(path, `the pre_tokenizer ${type}`);
}

const prefixesSpace = (given: Json): boolean =>
  inSequence(given).some(({ type, add_prefix_space }) => type === "ByteLevel" && add_prefix_space === true);

/** Parts between those found are words too, but for "Kept"; "Removed" leaves those found out. */
function splitBy(pattern: RegExp, behaviour: "Isolated" | "Removed" | "Kept"): Cut {
  return (text) => {
    const found = text.match(pattern) ?? [];
    if (behaviour === "Kept") return found.filter(Boolean);
    let length = 0;
    for (const word of found) length += word.length;
    if (length === text.length && behaviour === "Isolated") return found; // nothing lies between them
    const out: string[] = [];
    let at = 0;
    for (const { 0: word, index } of text.matchAll(pattern)) {
      if (index > at) out.push(text.slice(at, index));
      if (word !== "" && behaviour === "Isolated") out.push(word);
      at = index + word.length;
    }
    if (at < text.length) out.push(text.slice(at));
    return out;
  };
}

// Added tokens stand in the text by their names.

function addedIn(file: Json, path: string): readonly Added[] {
  const all = file.added_tokens ?? [];
  if (!Array.isArray(all)) throw bad(path, '"added_tokens" should be a list');
  for (const one of all) {
    if (typeof one?.content === "string" && Number.isInteger(one.id) && one.id >= 0 && one.id < MOST_TOKENS) {
      continue;
    }
    throw bad(path, `"added_tokens" has ${JSON.stringify(one)}`);
  }
  return all.filter(({ content }) => content !== "");
}

/** The names that models give to the end of a document. */
const ENDS = ["<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "[EOS]", "<|im_end|>"];

const endOf = (added: readonly Added[]): number | null =>
  ENDS.map((name) => added.find(({ content }) => content === name)).find(Boolean)?.id ?? null;

type Find = (
  text: string,
  special: boolean,
  push: (id: number) => void,
  rest: (text: string) => void,
) => void;

function finderOf(added: readonly Added[]): Find {
  const pattern = namesPattern(added.map(({ content }) => content).filter(Boolean));
  if (pattern === null) return (text, _, __, rest) => rest(text);
  const named = new Map(added.map((one) => [one.content, one]));
  return (text, special, push, rest) => {
    let at = 0;
    for (const { 0: found, index } of text.matchAll(pattern)) {
      const one = named.get(found)!;
      if (one.special && !special) continue;
      let begin = index, end = index + found.length;
      if (one.single_word && (WORD_BEFORE.test(text.slice(0, begin)) || WORD_AFTER.test(text.slice(end)))) {
        continue;
      }
      if (one.lstrip) begin = Math.max(at, text.slice(0, begin).replace(SPACE_BEFORE, "").length);
      if (one.rstrip) end += text.slice(end).match(SPACE_AFTER)![0].length;
      if (begin > at) rest(text.slice(at, begin));
      push(one.id);
      at = end;
    }
    if (at < text.length) rest(text.slice(at));
  };
}

const WORD_BEFORE = new RegExp(`[${WORD}]$`, "u"), WORD_AFTER = new RegExp(`^[${WORD}]`, "u");
const SPACE_BEFORE = /\p{White_Space}+$/u, SPACE_AFTER = /^\p{White_Space}*/u;
