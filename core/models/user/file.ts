// Loads a user's TypeScript file: reads it with the files it imports, replaces types by spaces, imports it
// and calls its default export. Errors in it become sentences that name the line. Files are imported as data:
// URLs, which a stack trace shortens to their ends: the last 15 bytes of each are its number.
import { UserError } from "../../base/errors.ts";
import { dirname, join } from "../../../deps/path.ts";
import { NativeError } from "../../../ffi/errors.ts";
import { type Code, keptState } from "./kept_state.ts";

export const isExported = (name: string): boolean => /\.pt2$/i.test(name);

/** A model of so many outputs has room for classes that training lacks; a program says its number later. */
export const hasRoom = (
  { name, output_size }: { readonly name: string; readonly output_size: number },
  classes: number,
): boolean => isExported(name) || output_size >= classes;

/** A file's function is given this beside the library. */
export type LibraryContext = Readonly<Record<string, unknown>>;

export interface UserFile {
  readonly path: string;
  readonly hash: string;
  /** The place in its code, or in that which it imports, by which a later call may do something else; null: there is none. */
  readonly keeps?: string | null;
  /** A loader thread opens data by the module at this address; absent where only this thread reads it. */
  readonly reader?: string;
  /** Its function makes something of the library and of this. */
  make(context: LibraryContext): unknown;
  /** Its function answers these, where it makes nothing; absent of Python's. */
  call?(...args: readonly unknown[]): unknown;
}

/** `what` is the purpose of the file ("model"), and `like` shows what it should export. */
export async function openUserFile(
  path: string,
  what: string,
  library: LibraryContext,
  like: string,
): Promise<UserFile> {
  let loaded: LoadedFile;
  try {
    loaded = await loadFile(path);
  } catch (error) {
    throw asMistake(named(error, path), path);
  }
  const build = loaded.exports.default;
  if (typeof build !== "function") {
    const others = Object.keys(loaded.exports).filter((name) => name !== "default");
    const found = build !== undefined
      ? `its default export is ${describeValue(build)}`
      : others.length > 0
      ? `it exports ${others.join(", ")} and no default`
      : "it exports nothing";
    throw new UserError(
      "usage",
      `${path} should export a function that makes the ${what}, and ${found}. ${like}`,
    );
  }
  const call = (...args: readonly unknown[]): unknown => {
    try {
      return build(...args);
    } catch (error) {
      throw asMistake(aClass(error, path, like), path);
    }
  };
  return {
    path,
    hash: loaded.hash,
    keeps: loaded.keeps,
    call,
    make(context) {
      const made = call({ ...library, ...context });
      if (made instanceof Promise) {
        made.catch(() => {}); // The mistake is reported here.
        throw new UserError(
          "usage",
          `${path}: the function that makes the ${what} is async, and it must not be: what it needs to wait for can be ` +
            "waited for at the top of the file.",
        );
      }
      return made;
    },
  };
}

function aClass(error: unknown, path: string, like: string): unknown {
  const name = error instanceof TypeError && /^Class constructor (\w+) cannot/.exec(error.message)?.[1];
  return name
    ? new UserError(
      "usage",
      `${path}: its default export is the class ${name}, and not a function. ${like}`,
      {
        cause: error,
      },
    )
    : error;
}

/** The engine's text about modules that don't fit names URLs. */
function named(error: unknown, path: string): unknown {
  if (error instanceof TypeError && error.message.startsWith("Import ")) {
    const wanted = /^Import "([^"]*)"/.exec(error.message)?.[1];
    return new UserError("usage", `${path} imports "${wanted}", which is no file beside it.`, {
      cause: error,
    });
  }
  if (!(error instanceof SyntaxError)) return error;
  const place = sourcePosition(error);
  const at = place ? `${place.path}:${place.line}:${place.column}` : path;
  const missing = /does not provide an export named '([^']*)'/.exec(error.message)?.[1];
  const sentence = missing
    ? `the imported file exports no ${missing}`
    : error.message.replace(/'?data:\S+'?/g, "an imported file");
  return new UserError("usage", `${at}: ${sentence}.`, { cause: error });
}

export function describeValue(value: unknown): string {
  if (value === null || value === undefined) return `${value}`;
  if (typeof value === "function") return "a function";
  if (typeof value !== "object") return `the ${typeof value} ${JSON.stringify(value)}`;
  if (Array.isArray(value)) return `a list of ${value.length}`;
  const { name = "Object" } = value.constructor ?? {};
  return `${name === "Object" ? "an object" : `a ${name}`} with ${
    Object.keys(value).slice(0, 5).join(", ") || "nothing in it"
  }`;
}

export const isCode = (name: string): boolean => CODE.test(name);

// The keys are paths.

const opened = new Map<string, UserFile>();

export const noteUserFile = (file: UserFile): void => void opened.set(file.path, file);

export const isUserFileOpen = (path: string): boolean => opened.has(path);

/** The file was opened before. */
export function userFile(path: string): UserFile {
  const file = opened.get(path);
  if (!file) {
    throw new UserError("usage", `${path} can't be used here: this command takes no TypeScript files.`);
  }
  return file;
}

export const DATA_EXAMPLE =
  'It should look like: export default ({ tensor }) => ({ task: "regression", outputs: 1, train: { input, target }, ' +
  "val: { input, target } }). To begin with one: hpctrain new data.";

interface LoadedFile {
  readonly path: string;
  /** The SHA-256 covers the file and those it imports. */
  readonly hash: string;
  readonly keeps: string | null;
  readonly exports: Readonly<Record<string, unknown>>;
}

const CODE = /\.(ts|mts|js|mjs)$/;

const IMPORT = /(\bfrom\s*|\bimport\s*\(?\s*)(["'])((?:\.{1,2}\/|\/)[^"'\n]+)\2/g;
const FOREIGN = /(?:\bfrom\s*|^\s*import\s+|\bimport\s*\(\s*)(["'])((?:npm|jsr|node|https?):[^"'\n]+)\1/m;
/** The library's own frames may stand above the user's. */
const FRAMES = 60;

export async function loadFile(path: string): Promise<LoadedFile> {
  Error.stackTraceLimit = FRAMES;
  const { url, hash, codes } = await prepared(path);
  return { path, hash, keeps: keptState(codes), exports: await import(url) };
}

/** Nothing is run. */
export const hashOfFile = async (path: string): Promise<string> => (await prepared(path)).hash;

interface Prepared {
  readonly url: string;
  readonly hash: string;
  /** The file's code comes first, then that of files that it imports. */
  readonly codes: readonly Code[];
}

async function prepared(path: string): Promise<Prepared> {
  const files: ReadFile[] = [];
  const url = await urlOfFile(path, [], files), sources = files.map(({ source }) => source).join("\0");
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(sources));
  return { url, hash: new Uint8Array(digest).toHex(), codes: files };
}

interface ReadFile extends Code {
  readonly source: string;
}

/** It adds what was read to `files`, in order. */
async function urlOfFile(path: string, above: readonly string[], files: ReadFile[]): Promise<string> {
  if (above.includes(path)) {
    throw new UserError(
      "usage",
      `${[...above, path].join(" imports ")}: files that import each other in a circle can't be loaded.`,
    );
  }
  const source = await read(path, above.at(-1));
  const own = { path, source, js: "" };
  files.push(own);
  const js = own.js = await stripTypes(source, path);
  const foreign = FOREIGN.exec(js);
  if (foreign) {
    throw new UserError(
      "usage",
      `${path} imports ${foreign[2]}, and a file given to hpctrain can import only files beside it. ` +
        "The library comes as the argument of the exported function; import its types with `import type`.",
    );
  }
  let out = "", end = 0;
  for (const found of js.matchAll(IMPORT)) {
    const [whole, before, quote, name] = found;
    const url = await urlOfFile(
      name.startsWith("/") ? name : join(dirname(path), name),
      [...above, path],
      files,
    );
    out += js.slice(end, found.index) + before + quote + url + quote;
    end = found.index + whole.length;
  }
  return codeUrl(out + js.slice(end), path);
}

async function read(path: string, from: string | undefined): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (cause) {
    const by = from ? `, which ${from} imports,` : "";
    const why = cause instanceof Deno.errors.NotFound
      ? "is not there"
      : `can't be read (${cause instanceof Error ? cause.message.split(" (os error")[0] : cause})`;
    throw new UserError("usage", `The file ${path}${by} ${why}.`, { cause });
  }
}

// JavaScript keeps the lines and columns of the TypeScript: types become spaces.

interface Refusal {
  readonly message: string;
  readonly startLine: number;
  readonly startColumn: number;
}

/** Syntax that is more than a type can't be erased. */
const INSTEAD: readonly (readonly [RegExp, string])[] = [
  [/enum/, "Write a plain object instead: const Kind = { a: 0, b: 1 }."],
  [/parameter propert/i, "Declare the field, and give it its value in the constructor."],
  [/namespace|module/, "Put it into a file of its own, or a plain object."],
];

/** The stripper is loaded when the first file needs it. */
async function stripTypes(source: string, path: string): Promise<string> {
  const { transformSync } = await import("../../../deps/amaro.ts");
  try {
    return transformSync(source, { mode: "strip-only", filename: path }).code;
  } catch (cause) {
    const { message, startLine, startColumn } = cause as Refusal;
    if (typeof startLine !== "number") throw cause;
    const instead = INSTEAD.find(([pattern]) => pattern.test(message))?.[1];
    throw new UserError(
      "usage",
      `${path}:${startLine}:${startColumn + 1}: ${message.replace(/\.$/, "")}.${
        instead ? ` ${instead}` : ""
      }`,
      { cause },
    );
  }
}

// A file's number is its index here.

const known: string[] = [];

/** The base64 of the last 15 bytes, which begin on a whole group of it, stands for the file. */
const FRAME = /data:text\/javascript;base64,\S*?([\w+/]{20}):(\d+):(\d+)/;

function codeUrl(code: string, path: string): string {
  const bytes = new TextEncoder().encode(code);
  const number = known.push(path) - 1;
  const filler = " ".repeat((3 - bytes.length % 3) % 3);
  const marker = new TextEncoder().encode(`${filler}\n//${String(number).padStart(12, "0")}`);
  const whole = new Uint8Array(bytes.length + marker.length);
  whole.set(bytes);
  whole.set(marker, bytes.length);
  return `data:text/javascript;base64,${whole.toBase64()}`;
}

interface SourcePosition {
  readonly path: string;
  readonly line: number;
  readonly column: number;
}

/** The innermost place in a user's file counts; null where there is none. */
export function sourcePosition(error: unknown): SourcePosition | null {
  if (!(error instanceof Error)) return null;
  const found = FRAME.exec(error.stack ?? "");
  if (!found) return sourcePosition(error.cause);
  const [, marker, line, column] = found;
  const path = known[Number(atob(marker).slice(3))];
  return path === undefined ? null : { path, line: Number(line), column: Number(column) };
}

/**
 * Gives the error itself, unless a user's file is in its stack. Running out of memory is nobody's mistake.
 * `path` is the file whose function was called: a thrown value that is no Error has no place.
 */
export function asMistake(error: unknown, path?: string): unknown {
  if (path !== undefined && !(error instanceof Error)) {
    return new UserError(
      "usage",
      `${path}: it has thrown ${
        thrown(error)
      }, which doesn't say in which line: throw an Error with that text.`,
      { cause: error },
    );
  }
  if (!(error instanceof Error) || error instanceof UserError) return error;
  if (error instanceof NativeError && error.outOfMemory) return error;
  const place = sourcePosition(error);
  return place === null ? error : mistake(place, error);
}

function thrown(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value.slice(0, 200)) : `${value}`.slice(0, 200);
}

function mistake(place: SourcePosition, error: Error): UserError {
  const at = `${place.path}:${place.line}:${place.column}`;
  const text = error.message.replace(/data:text\/javascript;base64,\S+/g, place.path).replace(/\.$/, "");
  const kind = error instanceof NativeError || error.name === "Error" ? "" : `${error.name}: `;
  return new UserError("usage", `${at}: ${kind}${text}.`, { cause: error });
}
