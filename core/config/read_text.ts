// Reads a small text file, or says why not. May import errors only.
import { UserError } from "../errors.ts";

/** A file of settings is a page; more is a mistake, and slow to refuse later. */
const MAX_BYTES = 256 * 1024;

export function readText(path: string): string {
  let bytes: Uint8Array;
  try {
    const info = Deno.statSync(path);
    if (info.isDirectory) {
      throw new UserError("usage", `${path}: expected a YAML file, but this is a folder.`);
    }
    if (info.size > MAX_BYTES) {
      throw new UserError(
        "usage",
        `${path}: ${info.size} bytes; a file of settings has at most ${MAX_BYTES}.`,
      );
    }
    bytes = Deno.readFileSync(path);
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError("usage", `${path}: ${readProblem(error)}`, { cause: error });
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new UserError("usage", `${path}: not a text file (expected YAML in UTF-8).`);
  }
}

function readProblem(error: unknown): string {
  if (error instanceof Deno.errors.NotFound) return "no such file. Check --config.";
  if (error instanceof Deno.errors.PermissionDenied || error instanceof Deno.errors.NotCapable) {
    return "no permission to read this file.";
  }
  return `cannot be read (${error instanceof Error ? error.message : error}).`;
}
