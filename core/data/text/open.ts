// Opens a tokenizer by what users name: "bytes", or a file of tiktoken's or Hugging Face's.
import { UserError } from "../../base/errors.ts";
import { isFolder } from "../arrays/files.ts";
import { fromHuggingFace } from "./huggingface.ts";
import { type PatternName, PATTERNS } from "./patterns.ts";
import { fromTiktoken } from "./tiktoken.ts";
import { BYTES, type Tokenizer } from "./tokenizer.ts";

/** No tokenizer is as large: a file of data was named. */
const MOST_BYTES = 256 * 2 ** 20;

export function openTokenizer(named: string, pattern?: string): Tokenizer {
  if (named === "bytes") return BYTES;
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
