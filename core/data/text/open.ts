// Opens a tokenizer by what users name: "bytes", or a file of tiktoken's or Hugging Face's.
import { UserError } from "../../base/errors.ts";
import { isFolder } from "../arrays/files.ts";
import { fromHuggingFace } from "./huggingface.ts";
import { type PatternName, PATTERNS } from "./patterns.ts";
import { fromTiktoken } from "./tiktoken.ts";
import { BYTE_TOKENIZER, type Tokenizer } from "./tokenizer.ts";
import { createHash } from "node:crypto";
import { join } from "../../../deps/path.ts";
import type { Config } from "../../settings/settings.ts";

/** No tokenizer is as large: a file of data was named. */
const MOST_BYTES = 256 * 2 ** 20;

export function openTokenizer(named: string, pattern?: string): Tokenizer {
  if (named === "bytes") return BYTE_TOKENIZER;
  const path = isFolder(named) ? `${named.replace(/\/$/, "")}/tokenizer.json` : named;
  const text = readText(path);
  const cut = pattern === undefined ? undefined : patternNamed(pattern);
  if (path.endsWith(".json")) {
    if (cut === undefined) return fromHuggingFace(text, path);
    throw new UserError("usage", `--pattern is for tiktoken's files, and ${path} has its own: leave it out.`);
  }
  if (path.endsWith(".tiktoken")) return fromTiktoken(text, path, cut);
  throw new UserError(
    "usage",
    `${path} does not say by its name what tokenizer it is: name a tokenizer.json of Hugging Face's, a .tiktoken file, ` +
      "or bytes.",
  );
}

function patternNamed(name: string): PatternName {
  if (Object.hasOwn(PATTERNS, name)) return name as PatternName;
  throw new UserError("usage", `--pattern is one of ${Object.keys(PATTERNS).join(", ")}, but got "${name}".`);
}

function readText(path: string): string {
  try {
    const { size } = Deno.statSync(path);
    if (size > MOST_BYTES) {
      throw new UserError("data", `${path} has ${size} bytes, too many for a tokenizer: name its own file.`);
    }
    return new TextDecoder("utf-8", { fatal: true }).decode(Deno.readFileSync(path));
  } catch (cause) {
    if (cause instanceof UserError) throw cause;
    const why = cause instanceof Deno.errors.NotFound
      ? "there is no such file. Name a tokenizer.json, a .tiktoken file, or bytes"
      : cause instanceof TypeError
      ? "it is not UTF-8, so it is no tokenizer.json and no file of tiktoken's"
      : "this user can't read it";
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

export const aboutText = (about: About): string => JSON.stringify(about, null, 2) + "\n";

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

/** The tokenizer that packed the tokens; null where none is known. */
export function tokenizerBeside({ data_path }: Pick<Config["data"], "data_path">): Tokenizer | null {
  const about = data_path === "" ? null : readAbout(data_path);
  if (about === null) return null;
  return openTokenizer(
    about.tokenizer === "bytes" ? "bytes" : join(data_path, about.tokenizer),
    about.pattern,
  );
}
