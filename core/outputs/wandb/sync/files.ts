import { isAbsolute, join, normalize } from "../../../../deps/path.ts";
import { UserError } from "../../../base/errors.ts";
import { formatBytes } from "../../../base/format.ts";
import type { Api, ServerRun } from "./api.ts";
import type { Contents } from "./contents.ts";
import { stringify } from "../../../../deps/yaml.ts";
import { type JsonValue, parseJson, quotedJson, textOfJson, type Tree } from "./json_text.ts";

/** A larger file would not fit into memory. */
const MAX_FILE = 2 ** 31 - 1;
const AT_ONCE = 4, NAMES_AT_ONCE = 200;

interface RunFiles {
  /** `all` includes files that change until the run ends. */
  upload(contents: Contents, place: ServerRun, all: boolean): Promise<readonly string[]>;
}

export function openRunFiles(api: Api, folder: string, say: (sentence: string) => void): RunFiles {
  const uploaded = new Set<string>();
  const warned = new Set<string>();
  const tell = (path: string, sentence: string) => {
    if (!warned.has(path)) say(sentence);
    warned.add(path);
  };

  return {
    async upload(contents, place, all) {
      const made = all ? madeFiles(contents) : new Map<string, Uint8Array<ArrayBuffer>>();
      const named = [...contents.files.values()]
        .filter(({ path, policy }) => !uploaded.has(path) && !made.has(path) && (all || policy === "now"))
        .map(({ path }) => path);
      const found = named.filter((path) => isReadable(folder, path, all ? tell : () => {}));
      const paths = [...made.keys(), ...found];
      for (let i = 0; i < paths.length; i += NAMES_AT_ONCE) {
        const some = paths.slice(i, i + NAMES_AT_ONCE);
        const { urls, headers } = await api.uploadUrls(place, some);
        await inTurns(some, async (path) => {
          const bytes = made.get(path) ?? read(folder, path);
          if (bytes === null) {
            return tell(path, `The file ${path} can't be read any more; the run goes without.`);
          }
          await api.put(urls.get(path)!, headers, bytes, path);
          uploaded.add(path);
        });
      }
      return [...uploaded];
    },
  };
}

/** A damaged or hostile .wandb file may name any file, so only those below the run's folder are read. */
function isReadable(folder: string, path: string, tell: (path: string, sentence: string) => void): boolean {
  const shown = JSON.stringify(path.slice(0, 200));
  if (path === "" || isAbsolute(path) || normalize(path).startsWith("..") || path.includes("\0")) {
    tell(path, `The file ${shown} lies outside of the run's folder; it is not uploaded.`);
    return false;
  }
  try {
    const place = join(folder, path);
    if (!isInside(folder, place)) {
      tell(path, `The file ${shown} is a link out of the run's folder; it is not uploaded.`);
      return false;
    }
    const { isFile, size } = Deno.statSync(place);
    if (!isFile) return false;
    if (size <= MAX_FILE) return true;
    tell(path, `The file ${shown} has ${formatBytes(size)}, more than can be uploaded; it is left out.`);
  } catch {
    tell(path, `The file ${shown} is not there (any more); the run goes without.`);
  }
  return false;
}

/** All links on the way count. */
function isInside(folder: string, path: string): boolean {
  return Deno.realPathSync(path).startsWith(`${Deno.realPathSync(folder)}/`);
}

function read(folder: string, path: string): Uint8Array<ArrayBuffer> | null {
  try {
    const place = join(folder, path);
    return isInside(folder, place) ? Deno.readFileSync(Deno.realPathSync(place)) : null;
  } catch {
    return null;
  }
}

/** It throws the first failure after the others have ended. */
async function inTurns<T>(list: readonly T[], each: (one: T) => Promise<void>): Promise<void> {
  const rest = [...list];
  const turn = async () => {
    for (let one = rest.shift(); one !== undefined; one = rest.shift()) await each(one);
  };
  const ended = await Promise.allSettled(Array.from({ length: AT_ONCE }, turn));
  const failed = ended.find((end) => end.status === "rejected");
  if (failed) {
    throw failed.reason instanceof Error
      ? failed.reason
      : new UserError("communication", String(failed.reason));
  }
}

/** `wandb sync` makes these files. A file of the run with the same name has priority where W&B gives it. */
export function madeFiles(contents: Contents): Map<string, Uint8Array<ArrayBuffer>> {
  const made = new Map<string, Uint8Array<ArrayBuffer>>();
  const add = (name: string, text: string) => void made.set(name, new TextEncoder().encode(text));
  add("config.yaml", yamlOf(wandbConfigOf(contents.fullConfig())));
  const metadata = contents.metadata();
  if (metadata !== null) add("wandb-metadata.json", indented(metadata));
  if (contents.printed.length > 0) add("output.log", contents.printed.join("\n") + "\n");
  if (contents.summary.size > 0) add("wandb-summary.json", textOfJson(contents.summary));
  return made;
}

export const wandbConfigOf = (config: Tree): Tree =>
  new Map([...config].map(([key, value]) => [key, new Map([["value", value]])]));

/** Names are sorted; each level begins at the next multiple of four columns. */
export function yamlOf(value: JsonValue): string {
  return block(value, 0).join("\n") + "\n";
}

/** The first line has no indentation. */
function block(value: JsonValue, column: number): string[] {
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

function elements(list: string): JsonValue[] {
  const found: JsonValue[] = [];
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

/**
 * The order of the library by which W&B's program writes YAML: numbers within names count as numbers ("3" comes before "12"), marks
 * come before letters, and letters before marks behind a digit.
 */
function byName(a: string, b: string): number {
  const x = [...a], y = [...b];
  const at = x.findIndex((one, i) => one !== y[i]);
  if (at < 0 || at >= y.length) return x.length - y.length;
  const letters = [x[at], y[at]].map((one) => /\p{L}/u.test(one));
  if (letters[0] && letters[1]) return x[at] < y[at] ? -1 : 1;
  if (letters[0] || letters[1]) return letters[0] === isDigit(x[at - 1]) ? -1 : 1;
  const [m, n] = [x, y].map((name) => name.slice(at).join("").match(/^\p{Nd}*/u)![0]);
  // A zero behind other digits is a part of their number.
  const before = x.slice(0, at).join("").match(/\p{Nd}*$/u)![0];
  const lead = (x[at] === "0" || y[at] === "0") && /[^0]/.test(before) ? "1" : "";
  return Number(lead + m) - Number(lead + n) || m.length - n.length || (x[at] < y[at] ? -1 : 1);
}

const isDigit = (one: string | undefined): boolean => one !== undefined && /\p{Nd}/u.test(one);

function scalar(json: string, column: number): string[] {
  if (!json.startsWith('"')) return [{ NaN: ".nan", Infinity: ".inf", "-Infinity": "-.inf" }[json] ?? json];
  const text: string = JSON.parse(json);
  return /\n/.test(text) && IN_LINES.test(text) ? literal(text, column) : [oneLine(text)];
}

const plainKey = (key: string): string => oneLine(key);

function oneLine(text: string): string {
  if (TAKEN_FOR_OTHERS.test(text)) return quotedJson(text);
  const plain = stringify(text, { lineWidth: 0 }).trimEnd();
  return plain.includes("\n") ? quotedJson(text) : plain;
}

/** Printable text has nothing at the ends of lines that a reader would strip. */
const IN_LINES = /^[^\s\p{C}](?:[^\p{C}]|\n)*$/u;

function literal(text: string, column: number): string[] {
  const ends = text.length - text.replace(/\n+$/, "").length;
  const lines = text.replace(/\n$/, "").split("\n").map((line) => line && " ".repeat(column) + line);
  return [`|${["-", ""][ends] ?? "+"}`, ...lines];
}

/** Some readers would take these texts for times or booleans. */
const TAKEN_FOR_OTHERS = /^(\d{4}-\d\d?-\d\d?([Tt ].*)?|y|n|yes|no|on|off|[-+]?\d+(:[0-5]?\d)+(\.\d*)?)$/i;

function indented(value: JsonValue, depth = 1): string {
  if (typeof value === "string") return value;
  const pad = "  ".repeat(depth);
  const parts = [...value].map(([key, inner]) => `${pad}${quotedJson(key)}: ${indented(inner, depth + 1)}`);
  return parts.length === 0 ? "{}" : `{\n${parts.join(",\n")}\n${"  ".repeat(depth - 1)}}`;
}
