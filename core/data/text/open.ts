// Opens a tokenizer by what users name: "bytes", a file of tiktoken's or Hugging Face's, or a table of characters.
import { isFile, isFolder } from "../../base/files.ts";
import { UserError } from "../../base/errors.ts";
import { charactersIn } from "./characters.ts";
import { fromHuggingFace } from "./huggingface.ts";
import { type PatternName, PATTERNS } from "./patterns.ts";
import {
  BYTE_TOKENIZER,
  bytesIn,
  namesPattern,
  PairTable,
  type Tokenizer,
  TokenList,
  WordEncoder,
} from "./tokenizer.ts";
import { createHash } from "node:crypto";
import { basename, join } from "../../../deps/path.ts";
import type { Config } from "../../settings/settings.ts";

/** No tokenizer is as large: a file of data was named. */
const MOST_BYTES = 256 * 2 ** 20;

export function openTokenizer(named: string, pattern?: string): Tokenizer {
  if (named === "bytes") return BYTE_TOKENIZER;
  const path = isFolder(named) ? `${named.replace(/\/$/, "")}/tokenizer.json` : named;
  const bytes = readTable(path);
  const characters = /\.(json|pkl)$/.test(path) ? charactersIn(bytes, path) : null;
  if (characters) return characters;
  const text = asText(bytes, path);
  const cut = pattern === undefined ? undefined : patternNamed(pattern);
  if (path.endsWith(".json")) {
    if (cut === undefined) return fromHuggingFace(text, path);
    throw new UserError("usage", `--pattern is for tiktoken's files, and ${path} has its own: leave it out.`);
  }
  if (path.endsWith(".tiktoken")) return fromTiktoken(text, path, cut);
  throw new UserError(
    "usage",
    `${path} does not say by its name what tokenizer it is: name a tokenizer.json of Hugging Face's, a .tiktoken file, ` +
      "a table of characters (.json, or nanoGPT's meta.pkl), or bytes.",
  );
}

function patternNamed(name: string): PatternName {
  if (Object.hasOwn(PATTERNS, name)) return name as PatternName;
  throw new UserError("usage", `--pattern is one of ${Object.keys(PATTERNS).join(", ")}, but got "${name}".`);
}

function readTable(path: string): Uint8Array<ArrayBuffer> {
  try {
    const { size } = Deno.statSync(path);
    if (size <= MOST_BYTES) return Deno.readFileSync(path);
    throw new UserError("data", `${path} has ${size} bytes, too many for a tokenizer: name its own file.`);
  } catch (cause) {
    if (cause instanceof UserError) throw cause;
    const why = cause instanceof Deno.errors.NotFound
      ? "there is no such file. Name a tokenizer.json, a .tiktoken file, or bytes"
      : "this user can't read it";
    throw new UserError("data", `${path}: ${why}.`, { cause });
  }
}

function asText(bytes: Uint8Array, path: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    const why = "it is not UTF-8, so it is no tokenizer.json and no file of tiktoken's";
    throw new UserError("data", `${path}: ${why}.`, { cause });
  }
}

export const ABOUT = "tokens.json";

export interface PartAbout {
  readonly documents: number;
  readonly tokens: number;
  /** The text has so many as UTF-8. */
  readonly bytes: number;
}

export interface About {
  readonly version: 1;
  /** "bytes", or the name of a file in the folder. */
  readonly tokenizer: string;
  readonly pattern?: string;
  readonly vocabulary: number;
  readonly end: number | null;
  readonly train: PartAbout;
  readonly val: PartAbout | null;
}

/** Null where the folder has none. */
export function readAbout(folder: string): About | null {
  const path = join(folder, ABOUT);
  let text: string;
  try {
    text = Deno.readTextFileSync(path);
  } catch {
    return null;
  }
  try {
    const about = JSON.parse(text) as About;
    const counts = [about.vocabulary, about.train.tokens, about.train.bytes, about.val?.tokens ?? 0];
    if (about.version === 1 && counts.every(Number.isInteger) && typeof about.tokenizer === "string") {
      return about;
    }
  } catch {
    // It is refused below.
  }
  throw new UserError("data", `${path} is damaged, or of a newer version of hpctrain: pack the text again.`);
}

/** Another tokenizer, or another way to cut texts for it, has another mark; null where none is known. */
export function tokenizerMark({ data_path }: Pick<Config["data"], "data_path">): string | null {
  const about = data_path === "" ? null : readAbout(data_path);
  if (about === null) return null;
  if (about.tokenizer === "bytes") return "bytes";
  const file = Deno.readFileSync(join(data_path, about.tokenizer));
  return createHash("sha256").update(file).update(about.pattern ?? "").digest("hex").slice(0, 16);
}

/** nanoGPT's scripts write the table of their characters under this name, beside the tokens. */
const META = "meta.pkl";

/** The tokenizer that packed the tokens; null where none is known. */
export function tokenizerBeside({ data_path }: Pick<Config["data"], "data_path">): Tokenizer | null {
  const about = data_path === "" ? null : readAbout(data_path);
  if (about === null) return isFile(join(data_path, META)) ? openTokenizer(join(data_path, META)) : null;
  return openTokenizer(
    about.tokenizer === "bytes" ? "bytes" : join(data_path, about.tokenizer),
    about.pattern,
  );
}

interface Encoding {
  readonly pattern: PatternName;
  readonly special: Readonly<Record<string, number>>;
}

/** By the names under which OpenAI has them. */
const ENCODINGS: Readonly<Record<string, Encoding>> = {
  gpt2: { pattern: "gpt2", special: { "<|endoftext|>": 50256 } },
  r50k_base: { pattern: "gpt2", special: { "<|endoftext|>": 50256 } },
  p50k_base: { pattern: "gpt2", special: { "<|endoftext|>": 50256 } },
  cl100k_base: {
    pattern: "cl100k",
    special: {
      "<|endoftext|>": 100257,
      "<|fim_prefix|>": 100258,
      "<|fim_middle|>": 100259,
      "<|fim_suffix|>": 100260,
      "<|endofprompt|>": 100276,
    },
  },
  o200k_base: { pattern: "o200k", special: { "<|endoftext|>": 199999, "<|endofprompt|>": 200018 } },
};

/** The file's name says how it cuts texts, or else `pattern` does. */
export function fromTiktoken(text: string, path: string, pattern?: PatternName): Tokenizer {
  const ranks = readRanks(text, path);
  const size = sizeOf(ranks.values());
  const known = ENCODINGS[basename(path).replace(/\.tiktoken$/, "")];
  const cut = pattern ?? known?.pattern;
  if (cut === undefined) {
    throw new UserError(
      "usage",
      `${path} does not say how texts are cut into words: call it as tiktoken does (${
        Object.keys(ENCODINGS).slice(1).map((name) => `${name}.tiktoken`).join(", ")
      }), or give --pattern ${Object.keys(PATTERNS).join(", ")}.`,
    );
  }
  const taken = new Set(ranks.values());
  const fits = known !== undefined && Object.values(known.special).every((token) => !taken.has(token));
  const special = fits ? known.special : { "<|endoftext|>": size };
  return tokenizerOf(basename(path), ranks, PATTERNS[cut], special);
}

function tokenizerOf(
  name: string,
  ranks: ReadonlyMap<string, number>,
  pattern: string,
  special: Readonly<Record<string, number>>,
): Tokenizer {
  const keys: string[] = [];
  for (const [key, rank] of ranks) keys[rank] = key;
  const words = new WordEncoder({
    pairs: pairsOf(ranks, keys),
    bytes: singles(ranks),
    whole: ranks,
    unknown: null,
  });
  const cut = new RegExp(pattern, "gu"), named = namesPattern(Object.keys(special))!;
  const into = new TokenList();
  const texts = new Map(
    Object.entries(special).map(([text, token]) => [token, new TextEncoder().encode(text)]),
  );
  const plain = (text: string) => {
    for (const word of text.match(cut) ?? []) words.encode(word, into);
  };
  return {
    name,
    vocabulary: Math.max(sizeOf(ranks.values()), ...Object.values(special).map((token) => token + 1)),
    end: special["<|endoftext|>"],
    special: Object.entries(special),
    cuts: true,
    encode(text, asSpecial = false) {
      if (!asSpecial) plain(text);
      else {
        let at = 0;
        for (const { 0: found, index } of text.matchAll(named)) {
          plain(text.slice(at, index));
          into.push(special[found]);
          at = index + found.length;
        }
        plain(text.slice(at));
      }
      return into.taken();
    },
    bytesOf: (token) => texts.get(token) ?? bytesIn(keys[token] ?? ""),
  };
}

function readRanks(text: string, path: string): Map<string, number> {
  const ranks = new Map<string, number>(), seen = new Set<number>();
  let line = 0;
  for (const row of text.split("\n")) {
    line++;
    if (row.trim() === "") continue;
    const [token, rank, ...more] = row.trim().split(" ");
    const number = Number(rank);
    if (more.length > 0 || !/^\d+$/.test(rank ?? "") || number >= MOST_RANKS) {
      throw bad(path, `line ${line} should be a token in base64 and its rank, but is "${shown(row)}"`);
    }
    const key = decoded(token);
    if (key === null) throw bad(path, `line ${line} has "${shown(token)}", which is no base64`);
    if (ranks.has(key) || seen.has(number)) {
      throw bad(path, `line ${line} has a token or a rank (${rank}) that an earlier line has`);
    }
    ranks.set(key, number);
    seen.add(number);
  }
  const missing = singles(ranks).findIndex((rank) => rank < 0);
  if (missing >= 0) {
    throw bad(path, `the byte ${missing} has no rank, so not every text could be written with it`);
  }
  return ranks;
}

/** There are too many for Math.max to take as arguments. */
const sizeOf = (tokens: Iterable<number>): number => {
  let most = -1;
  for (const token of tokens) most = Math.max(most, token);
  return most + 1;
};

const MOST_RANKS = 2 ** 21;

function decoded(base64: string): string | null {
  try {
    return atob(base64) || null;
  } catch {
    return null;
  }
}

const shown = (text: string) =>
  text.length > 40 ? `${text.slice(0, 40)}...` : text.replaceAll(/\p{Cc}/gu, "?");

const bad = (path: string, what: string) =>
  new UserError("data", `${path} is no file of tiktoken's: ${what}. Copy it again from where it came from.`);

const singles = (ranks: ReadonlyMap<string, number>): Int32Array =>
  Int32Array.from({ length: 256 }, (_, byte) => ranks.get(String.fromCharCode(byte)) ?? -1);

/** Two tokens merge where their bytes together are a token, with its rank. Most such pairs never come. */
function pairsOf(ranks: ReadonlyMap<string, number>, keys: readonly string[]): PairTable {
  return new PairTable(1 << 16, (left, right) => ranks.get(keys[left] + keys[right]) ?? -1);
}
