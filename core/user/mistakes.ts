// An error that came up in a user's file -> a sentence that names the line. May import ffi's errors, errors, its siblings.
import { NativeError } from "../../ffi/errors.ts";
import { UserError } from "../errors.ts";
import { type Place, placeOf } from "./places.ts";

/**
 * The error itself, unless a user's file is on its way. Running out of memory is nobody's mistake. `path` is the file
 * whose function was called, where one was: what is thrown and is no Error knows no place.
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
  if (error instanceof UserError || (error instanceof NativeError && error.outOfMemory)) return error;
  const place = placeOf(error);
  return place === null ? error : mistake(place, error as Error);
}

function thrown(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value.slice(0, 200)) : `${value}`.slice(0, 200);
}

export function mistake(place: Place, error: Error): UserError {
  const at = `${place.path}:${place.line}:${place.column}`;
  const text = error.message.replace(/data:text\/javascript;base64,\S+/g, place.path).replace(/\.$/, "");
  const kind = error instanceof NativeError || error.name === "Error" ? "" : `${error.name}: `;
  return new UserError("usage", `${at}: ${kind}${text}.`, { cause: error });
}
