// The default export of a user's file, called with the library. May import errors, its siblings.
import { UserError } from "../errors.ts";
import { CODE, type Loaded, loadFile } from "./load.ts";
import { asMistake } from "./mistakes.ts";
import { placeOf } from "./places.ts";

/** What a file's function is given beside the library. */
export type Context = Readonly<Record<string, unknown>>;

export interface UserFile {
  readonly path: string;
  readonly hash: string;
  /** Of data: the address of the module that opens it in a loader thread; left out where only this thread reads it. */
  readonly reader?: string;
  /** What the exported function gives. */
  make(context: Context): unknown;
}

/** `what` the file is for: "model". `like` shows what it should export. */
export async function openUserFile(
  path: string,
  what: string,
  library: Context,
  like: string,
): Promise<UserFile> {
  let loaded: Loaded;
  try {
    loaded = await loadFile(path);
  } catch (error) {
    throw asMistake(named(error, path), path);
  }
  const build = loaded.exports.default;
  if (typeof build !== "function") {
    const others = Object.keys(loaded.exports).filter((name) => name !== "default");
    const found = build !== undefined
      ? `its default export is ${describe(build)}`
      : others.length > 0
      ? `it exports ${others.join(", ")} and no default`
      : "it exports nothing";
    throw new UserError(
      "usage",
      `${path} should export a function that makes the ${what}, and ${found}. ${like}`,
    );
  }
  return {
    path,
    hash: loaded.hash,
    make(context) {
      let made: unknown;
      try {
        made = build({ ...library, ...context });
      } catch (error) {
        throw asMistake(aClass(error, path, like), path);
      }
      if (made instanceof Promise) {
        made.catch(() => {}); // told here
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

/** A mistake in how modules fit together: its text names URLs. */
function named(error: unknown, path: string): unknown {
  if (error instanceof TypeError && error.message.startsWith("Import ")) {
    const wanted = /^Import "([^"]*)"/.exec(error.message)?.[1];
    return new UserError("usage", `${path} imports "${wanted}", which is no file beside it.`, {
      cause: error,
    });
  }
  if (!(error instanceof SyntaxError)) return error;
  const place = placeOf(error);
  const at = place ? `${place.path}:${place.line}:${place.column}` : path;
  const missing = /does not provide an export named '([^']*)'/.exec(error.message)?.[1];
  const said = missing
    ? `the imported file exports no ${missing}`
    : error.message.replace(/'?data:\S+'?/g, "an imported file");
  return new UserError("usage", `${at}: ${said}.`, { cause: error });
}

export function describe(value: unknown): string {
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
