// --data-path may name many files: a glob, a list with commas, or a folder. This file says which they are.
import { isFolder } from "../../base/files.ts";
import { basename, dirname, join, resolve } from "../../../deps/path.ts";
import { UserError } from "../../base/errors.ts";
import { HIDDEN } from "../../base/secrets.ts";
import { formatPlural } from "../../base/format.ts";

const MAGIC = /[*?[{]/;

export const isUrl = (path: string): boolean => /^https?:\/\//i.test(path);

/**
 * The files of a glob or a list, each once: lists in their order, globs in the order of names (2 before 10).
 * Null means that the path names one file or folder, which may not be there.
 */
export function filesNamed(path: string, endings: readonly string[] = []): readonly string[] | null {
  if (path === "" || isThere(path)) return null;
  refuseHidden(path);
  const items = split(path);
  if (items.length === 1 && !(isUrl(path) ? /[*[{]/ : MAGIC).test(path)) return null;
  return withoutRepeats(items.flatMap((item) => filesOf(item, endings)));
}

/** The files of a glob, a list or a folder; null where the path names one file. */
export const filesIn = (path: string, endings: readonly string[]): readonly string[] | null =>
  filesNamed(path, endings) ?? (isFolder(path) ? filesBelow(path, endings) : null);

/** Checkpoints and what is printed have addresses without their keys. */
function refuseHidden(path: string): void {
  if (!isUrl(path) || !path.includes(`=${HIDDEN}`)) return;
  throw new UserError(
    "usage",
    `data.data_path (--data-path) is ${path}, a checkpoint's, in which the key is left out. Name the store with its key: --data-path ADDRESS.`,
  );
}

/** The files below a folder whose names end so, in the order of names. Links that lead back are followed once. */
export function filesBelow(folder: string, endings: readonly string[]): string[] {
  const found: string[] = [];
  walk(folder, new Set(), (name, path) => {
    if (endings.some((ending) => name.toLowerCase().endsWith(ending))) found.push(path);
    if (found.length > MOST_FILES) throw tooMany(folder);
  });
  return withoutRepeats(found);
}

const MOST_FILES = 100_000;
/** A folder is recognised by what is near: data of other kinds may have a million files. */
const MOST_LOOKED_INTO = 16, MOST_LOOKED_AT = 4096;

/** True where such a file is in the folder or near below it. */
export function holds(folder: string, endings: readonly string[]): boolean {
  const next = [folder];
  for (let looked = 0, names = 0; looked < Math.min(next.length, MOST_LOOKED_INTO); looked++) {
    try {
      for (const { name, isDirectory, isFile } of Deno.readDirSync(next[looked])) {
        if (name.startsWith(".")) continue;
        if (endings.some((ending) => name.toLowerCase().endsWith(ending))) return true;
        if (isDirectory || (!isFile && isFolder(join(next[looked], name)))) {
          next.push(join(next[looked], name));
        }
        if (++names > MOST_LOOKED_AT) return false;
      }
    } catch {
      continue; // who opens it says why it can't be listed
    }
  }
  return false;
}

/** The folder that all of these files are below. */
export function commonFolder(files: readonly string[]): string {
  const parts = files.map((file) => dirname(resolve(file)).split("/"));
  const [first] = parts;
  const shared = first.findIndex((part, i) => parts.some((other) => other[i] !== part));
  return first.slice(0, shared < 0 ? first.length : shared).join("/") || "/";
}

/** It gives the folder or file that a glob or a list begins with. */
export function beginningOf(path: string): string {
  if (isThere(path)) return path;
  const [first] = split(path);
  const at = first.search(MAGIC);
  return at < 0 ? first : dirname(first.slice(0, at) + "_");
}

export function isThere(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch (error) {
    return !(error instanceof Deno.errors.NotFound) && !(error instanceof Deno.errors.NotADirectory);
  }
}

/** "a{1,2}.nc,b.nc" has two items. */
function split(path: string): string[] {
  const items = [""];
  let depth = 0;
  for (const char of path) {
    if (char === "{") depth++;
    if (char === "}") depth = Math.max(0, depth - 1);
    if (char === "," && depth === 0) items.push("");
    else items[items.length - 1] += char;
  }
  return items.map((item) => item.trim()).filter((item) => item !== "");
}

/** A Zarr store is a folder and yet counts as one file. */
const isStore = (path: string): boolean => /\.zarr\/?$/i.test(path);

/** A server can't be asked what is in a folder, so braces alone name several of its stores. */
function addressesOf(item: string): string[] {
  const found = expanded(item), odd = found.find((address) => /[*[]/.test(address));
  if (odd === undefined) return found;
  throw new UserError(
    "usage",
    `data.data_path (--data-path): ${odd} has a star or brackets in it, and a server can't be asked what is there. Name its stores ` +
      "in braces, {1979..2012}, or with commas.",
  );
}

function filesOf(item: string, endings: readonly string[]): string[] {
  if (isUrl(item)) return addressesOf(item);
  if (isFolder(item) && !isStore(item)) {
    const found = filesBelow(item, endings);
    if (found.length > 0) return found;
    throw new UserError("data", `The folder ${item} has no file in it that ends in ${endings.join(", ")}.`);
  }
  if (isThere(item)) return [item];
  if (!MAGIC.test(item)) {
    throw new UserError("data", `There is no ${item}. Check data.data_path (--data-path).`);
  }
  const plain = expanded(item);
  const missing = plain.find((path) => !MAGIC.test(path) && !isThere(path));
  if (missing !== undefined) {
    throw new UserError(
      "data",
      `There is no ${missing}, which ${item} names. Check data.data_path (--data-path).`,
    );
  }
  const found = plain.flatMap(glob);
  if (found.length > 0) return found;
  throw new UserError(
    "data",
    `No file is called ${item}. In data.data_path (--data-path) * and ? stand for parts of one name, and ** for any folders.`,
  );
}

function withoutRepeats(files: readonly string[]): string[] {
  const known = new Set<string>();
  return files.filter((file) => {
    const real = isUrl(file) ? file : Deno.realPathSync(file);
    if (known.has(real)) return false;
    known.add(real);
    return true;
  });
}

/** "{a,b}c" is "ac" and "bc", and "{8..10}" is "8", "9" and "10". */
function expanded(pattern: string): string[] {
  const open = pattern.indexOf("{");
  if (open < 0) return [pattern];
  let depth = 0, from = open + 1;
  const words: string[] = [];
  for (let at = open; at < pattern.length; at++) {
    if (pattern[at] === "{") depth++;
    if (pattern[at] === "}") depth--;
    if (depth > 1 || (pattern[at] !== "," && depth > 0)) continue;
    words.push(pattern.slice(from, at));
    from = at + 1;
    if (depth > 0) continue;
    const rest = expanded(pattern.slice(at + 1));
    const all = words.length === 1 ? sequence(words[0]) : words.flatMap(expanded);
    return all.flatMap((word) => rest.map((end) => pattern.slice(0, open) + word + end));
  }
  throw new UserError(
    "usage",
    `data.data_path (--data-path): ${pattern} opens a brace "{" and doesn't close it.`,
  );
}

/** As in a shell, zeros in front of an end fill all numbers to its length. */
function sequence(word: string): string[] {
  const [, from, to] = /^(\d+)\.\.(\d+)$/.exec(word) ?? [];
  if (from === undefined) return expanded(word);
  const [low, high] = [Number(from), Number(to)].sort((a, b) => a - b);
  if (high - low > MOST_FILES) throw tooMany(`{${word}}`);
  const width = from.startsWith("0") || to.startsWith("0") ? Math.max(from.length, to.length) : 0;
  return Array.from({ length: high - low + 1 }, (_, i) => String(low + i).padStart(width, "0"));
}

function glob(pattern: string): string[] {
  const segments = pattern.split("/").filter((part, i) => part !== "" || i === 0);
  const found: string[] = [];
  const visit = (folder: string, at: number, known: Set<string>) => {
    const segment = segments[at], isLast = at === segments.length - 1;
    if (segment === undefined || found.length > MOST_FILES) return;
    if (segment === "**") {
      if (isLast) return walk(folder, known, (_, path) => void found.push(path));
      visit(folder, at + 1, known);
      for (const { path, isFolder } of entriesOf(folder, known)) if (isFolder) visit(path, at, known);
      return;
    }
    if (!MAGIC.test(segment)) {
      const path = at === 0 && segment === "" ? "/" : inside(folder, segment);
      if (!isLast) visit(path, at + 1, new Set());
      else if (isThere(path) && (isStore(path) || !isFolder(path))) found.push(path);
      return;
    }
    const named = patternOf(segment, pattern);
    for (const { name, path, isFolder } of entriesOf(folder, new Set(), segment.startsWith("."))) {
      if (!named.test(name)) continue;
      if (!isLast) visit(path, at + 1, new Set());
      else if (!isFolder) found.push(path);
    }
  };
  visit("", 0, new Set());
  if (found.length > MOST_FILES) throw tooMany(pattern);
  return found;
}

const inside = (folder: string, name: string) => folder === "" ? name : join(folder, name);

/** `[!x]` and `[^x]` mean any other character. */
function patternOf(segment: string, whole: string): RegExp {
  let text = "";
  for (let i = 0; i < segment.length; i++) {
    const close = segment[i] === "[" ? segment.indexOf("]", i + 2) : -1;
    if (segment[i] === "*") text += ".*";
    else if (segment[i] === "?") text += ".";
    else if (close > 0) {
      const inner = segment.slice(i + 1, close).replaceAll("\\", "\\\\");
      text += `[${inner.replace(/^!/, "^")}]`;
      i = close;
    } else text += segment[i].replace(/[.+^${}()|[\]\\]/, "\\$&");
  }
  try {
    return new RegExp(`^${text}$`, "su");
  } catch (cause) {
    throw new UserError(
      "usage",
      `data.data_path (--data-path): the characters in brackets in ${whole} are no range.`,
      {
        cause,
      },
    );
  }
}

interface Entry {
  readonly name: string;
  readonly path: string;
  readonly isFolder: boolean;
}

/** `known` has the folders that were listed: a link may lead back into one. Hidden files are no data. */
function entriesOf(folder: string, known: Set<string>, hidden = false): Entry[] {
  const folderName = folder === "" ? "." : folder;
  try {
    const real = Deno.realPathSync(folderName);
    if (known.has(real)) return [];
    known.add(real);
    const entries = [...Deno.readDirSync(folderName)].filter(({ name }) => hidden || !name.startsWith("."));
    return entries.map(({ name, isDirectory, isSymlink }) => {
      const path = inside(folder, name);
      return { name, path, isFolder: !isStore(name) && (isDirectory || (isSymlink && isFolder(path))) };
    }).sort((a, b) => byName(a.name, b.name));
  } catch (cause) {
    if (cause instanceof Deno.errors.PermissionDenied) {
      throw new UserError("data", `${folderName} can't be listed: this user may not read the folder.`, {
        cause,
      });
    }
    return []; // it is no folder, or not there
  }
}

function walk(folder: string, known: Set<string>, take: (name: string, path: string) => void): void {
  for (const { name, path, isFolder } of entriesOf(folder, known)) {
    if (isFolder) walk(path, known, take);
    else take(name, path);
  }
}

/** Making it takes 10 ms. */
let order: Intl.Collator | undefined;

/** The order of names has 2 before 10. */
export function byName(a: string, b: string): number {
  order ??= new Intl.Collator("en", { numeric: true });
  return order.compare(a, b) || (a < b ? -1 : a > b ? 1 : 0);
}

const tooMany = (where: string) =>
  new UserError("data", `${where} has more than ${MOST_FILES} files: pack them into fewer.`);

/** "40 files (2001.nc to 2040.nc)". */
export const filesText = (files: readonly string[]): string =>
  `${formatPlural(files.length, "file")} (${basename(files[0])} to ${basename(files[files.length - 1])})`;
