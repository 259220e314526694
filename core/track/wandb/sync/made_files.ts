// The files that `wandb sync` makes from the records and uploads with a run: config.yaml, wandb-summary.json,
// wandb-metadata.json, output.log. May import contents, json_text and yaml.
import { stringify } from "../../../../deps/yaml.ts";
import type { Contents } from "./contents.ts";
import { type Json, parseJson, quoted, textOfJson, type Tree } from "./json_text.ts";

/** By their paths. A file of the same name that the run has itself stays, where W&B's own does. */
export function madeFiles(contents: Contents): Map<string, Uint8Array<ArrayBuffer>> {
  const made = new Map<string, Uint8Array<ArrayBuffer>>();
  const add = (name: string, text: string) => void made.set(name, new TextEncoder().encode(text));
  add("config.yaml", yamlOf(wrapped(contents.fullConfig())));
  const metadata = contents.metadata();
  if (metadata !== null) add("wandb-metadata.json", indented(metadata));
  if (contents.printed.length > 0) add("output.log", contents.printed.join("\n") + "\n");
  if (contents.summary.size > 0) add("wandb-summary.json", textOfJson(contents.summary));
  return made;
}

/** Each value of a configuration as W&B wants it. */
export const wrapped = (config: Tree): Tree =>
  new Map([...config].map(([key, value]) => [key, new Map([["value", value]])]));

/** Sorted by name, each level at the next column that is a multiple of four. */
export function yamlOf(value: Json): string {
  return block(value, 0).join("\n") + "\n";
}

/** The lines of a value that begins at a column; the first one goes without its indentation. */
function block(value: Json, column: number): string[] {
  if (typeof value === "string") {
    if (!isFilledList(value)) return scalar(value, column);
    return elements(value).flatMap((one, i) => {
      const [first, ...rest] = block(one, column + 2);
      return [`${i === 0 ? "" : " ".repeat(column)}- ${first}`, ...rest];
    });
  }
  if (value.size === 0) return ["{}"];
  const below = 4 * Math.floor((column + 4) / 4);
  return [...value].sort(([a], [b]) => byName(a, b)).flatMap(([key, inner], i) => {
    const name = `${i === 0 ? "" : " ".repeat(column)}${plainKey(key)}:`;
    const opens = typeof inner === "string" ? isFilledList(inner) : inner.size > 0;
    const [first, ...rest] = block(inner, below);
    return opens ? [name, " ".repeat(below) + first, ...rest] : [`${name} ${first}`, ...rest];
  });
}

const isFilledList = (text: string): boolean => text.startsWith("[") && text !== "[]";

/** A list's elements, each parsed. */
function elements(list: string): Json[] {
  const found: Json[] = [];
  let depth = 0, from = 1, inText = false;
  for (let i = 1; i < list.length; i++) {
    const mark = list[i];
    if (inText) {
      if (mark === "\\") i++;
      else if (mark === '"') inText = false;
    } else if (mark === '"') inText = true;
    else if (mark === "[" || mark === "{") depth++;
    else if (depth > 0 && (mark === "]" || mark === "}")) depth--;
    else if (depth === 0 && (mark === "," || mark === "]")) {
      const value = parseJson(list.slice(from, i));
      if (value !== null) found.push(value);
      from = i + 1;
    }
  }
  return found;
}

/** Numbers in names count as numbers: "3" comes before "12". */
function byName(a: string, b: string): number {
  if (/^\d+$/.test(a) && /^\d+$/.test(b)) return Number(a) - Number(b);
  return a < b ? -1 : a > b ? 1 : 0;
}

function scalar(json: string, column: number): string[] {
  if (!json.startsWith('"')) return [{ NaN: ".nan", Infinity: ".inf", "-Infinity": "-.inf" }[json] ?? json];
  const text: string = JSON.parse(json);
  return /\n/.test(text) && IN_LINES.test(text) ? literal(text, column) : [oneLine(text)];
}

const plainKey = (key: string): string => oneLine(key);

/** What can't stand bare is quoted. */
function oneLine(text: string): string {
  if (TAKEN_FOR_OTHERS.test(text)) return quoted(text);
  const plain = stringify(text, { lineWidth: 0 }).trimEnd();
  return plain.includes("\n") ? quoted(text) : plain;
}

/** Printable, and nothing at a line's begin or end that a reader would take away. */
const IN_LINES = /^[^\s\p{C}](?:[^\p{C}]|\n)*$/u;

function literal(text: string, column: number): string[] {
  const ends = /\n*$/.exec(text)![0].length;
  const lines = text.replace(/\n$/, "").split("\n").map((line) => line && " ".repeat(column) + line);
  return [`|${["-", ""][ends] ?? "+"}`, ...lines];
}

/** Times and old words for true and false, which some readers would not take for texts. */
const TAKEN_FOR_OTHERS = /^(\d{4}-\d\d?-\d\d?([Tt ].*)?|y|n|yes|no|on|off|[-+]?\d+(:[0-5]?\d)+(\.\d*)?)$/i;

function indented(value: Json, depth = 1): string {
  if (typeof value === "string") return value;
  const pad = "  ".repeat(depth);
  const parts = [...value].map(([key, inner]) => `${pad}${quoted(key)}: ${indented(inner, depth + 1)}`);
  return parts.length === 0 ? "{}" : `{\n${parts.join(",\n")}\n${"  ".repeat(depth - 1)}}`;
}
