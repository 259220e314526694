// A user's TypeScript file and the files of theirs that it imports -> one module, and the hash of all of them.
// May import errors, its siblings, @std/path.
import { dirname, join } from "../../deps/path.ts";
import { UserError } from "../errors.ts";
import { urlOf } from "./places.ts";
import { stripTypes } from "./strip.ts";

export interface Loaded {
  readonly path: string;
  /** SHA-256 of the file and of those it imports, hexadecimal. */
  readonly hash: string;
  readonly exports: Readonly<Record<string, unknown>>;
}

/** How the names of such files end. */
export const CODE = /\.(ts|mts|js|mjs)$/;

const IMPORT = /(\bfrom\s*|\bimport\s*\(?\s*)(["'])((?:\.{1,2}\/|\/)[^"'\n]+)\2/g;
const FOREIGN = /(?:\bfrom\s*|^\s*import\s+|\bimport\s*\(\s*)(["'])((?:npm|jsr|node|https?):[^"'\n]+)\1/m;
/** Frames of an error that are kept: the library's own may stand above the user's. */
const FRAMES = 60;

export async function loadFile(path: string): Promise<Loaded> {
  Error.stackTraceLimit = FRAMES;
  const { url, hash } = await prepared(path);
  return { path, hash, exports: await import(url) };
}

/** What `loadFile` notes as its hash; nothing is run. */
export const hashOfFile = async (path: string): Promise<string> => (await prepared(path)).hash;

async function prepared(path: string): Promise<{ url: string; hash: string }> {
  const files: string[] = [];
  const url = await urlOfFile(path, [], files);
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(files.join("\0")));
  return { url, hash: new Uint8Array(digest).toHex() };
}

/** Adds to `files` what was read, in order. */
async function urlOfFile(path: string, above: readonly string[], files: string[]): Promise<string> {
  if (above.includes(path)) {
    throw new UserError(
      "usage",
      `${[...above, path].join(" imports ")}: files that import each other in a circle can't be loaded.`,
    );
  }
  const source = await read(path, above.at(-1));
  files.push(source);
  const js = await stripTypes(source, path);
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
  return urlOf(out + js.slice(end), path);
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
