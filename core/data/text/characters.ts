// Each character is a token, by a table: small models of text are trained so (nanoGPT's shakespeare_char). The table is a list of
// characters, or the stoi or itos of such a script, as JSON or as the meta.pkl that it writes.
import { basename } from "../../../deps/path.ts";
import { UserError } from "../../base/errors.ts";
import { readPickle } from "../../checkpoint/pickle_reader.ts";
import type { Tokenizer } from "./tokenizer.ts";

export const CHARACTERS = "characters.json";

/** No script has so many characters. */
const MOST = 0x110000;

/** Null where the file is something else, such as Hugging Face's. */
export function charactersIn(bytes: Uint8Array, path: string): Tokenizer | null {
  if (path.endsWith(".pkl")) return tokenizerOf(tableOf(unpickled(bytes, path)) ?? refuse(path), path);
  const json = parsed(bytes), table = json === undefined ? null : tableOf(json);
  return table && tokenizerOf(table, path);
}

/** The characters of texts, in the order of their code points. */
export class Characters {
  readonly #seen = new Set<string>();

  add(text: string): void {
    for (const character of text) this.#seen.add(character);
  }

  tokenizer(): Tokenizer {
    const all = [...this.#seen].sort((a, b) => a.codePointAt(0)! - b.codePointAt(0)!);
    return tokenizerOf(new Map(all.map((character, token) => [token, character])), CHARACTERS);
  }
}

type Table = ReadonlyMap<number, string>;

function tokenizerOf(table: Table, path: string): Tokenizer {
  const tokens = new Map([...table].map(([token, character]) => [character, token]));
  const name = basename(path), encoder = new TextEncoder();
  return {
    name,
    vocabulary: [...table.keys()].reduce((most, token) => Math.max(most, token), -1) + 1,
    end: null,
    cuts: true,
    table: JSON.stringify(Object.fromEntries(table)) + "\n",
    encode: (text) =>
      Uint32Array.from(text, (character) => {
        const token = tokens.get(character);
        if (token !== undefined) return token;
        throw new UserError(
          "data",
          `${name} has no character ${JSON.stringify(character)}: leave it out, or take a table that has it.`,
        );
      }),
    bytesOf: (token) => encoder.encode(table.get(token) ?? ""),
  };
}

/** ["a", "b"], { "a": 0 }, { "0": "a" }, or one of them under stoi or itos. */
function tableOf(value: unknown): Table | null {
  if (Array.isArray(value)) return checked(value.map((character, token) => [token, character]));
  const entries = value instanceof Map
    ? [...value]
    : typeof value === "object" && value !== null
    ? Object.entries(value)
    : [];
  const inner = entries.find(([key]) => key === "itos" || key === "stoi");
  if (inner) return tableOf(inner[1]);
  if (entries.every(([, token]) => typeof token === "number")) {
    return checked(entries.map(([character, token]) => [token, character]));
  }
  return checked(entries.map(([token, character]) => [Number(token), character]));
}

function checked(entries: readonly (readonly [unknown, unknown])[]): Table | null {
  const table = new Map<number, string>();
  for (const [token, character] of entries) {
    const isToken = typeof token === "number" && Number.isInteger(token) && token >= 0 && token < MOST;
    if (!isToken || typeof character !== "string" || [...character].length !== 1) return null;
    table.set(token, character);
  }
  const each = new Set(table.values()).size === entries.length && table.size === entries.length;
  return each && table.size > 0 ? table : null;
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}

const refuse = (path: string): never => {
  throw new UserError(
    "data",
    `${path} is no table of characters, as nanoGPT's meta.pkl is: name a tokenizer.json, a .tiktoken file, or a JSON list ` +
      "of the characters in the order of their numbers.",
  );
};

const unpickled = (bytes: Uint8Array, path: string): unknown =>
  readPickle(bytes, { refuse: () => refuse(path), storage: () => refuse(path) }).value;
