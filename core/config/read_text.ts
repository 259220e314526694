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
    // A pipe that a shell made, `--config <(...)`, is there to be read; on any other one would wait for ever.
    if (!info.isFile && !/^\/(dev|proc\/self)\/(fd\/\d+|stdin)$/.test(path)) {
      throw new UserError("usage", `${path}: expected a YAML file, but this is a pipe or a device.`);
    }
    bytes = readStart(path);
    if (bytes.length > MAX_BYTES) {
      throw new UserError("usage", `${path}: a file of settings has at most ${MAX_BYTES} bytes.`);
    }
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

/** One byte more than is allowed, at most: what a pipe or a growing file will hold can't be asked. */
function readStart(path: string): Uint8Array {
  using file = Deno.openSync(path);
  const bytes = new Uint8Array(MAX_BYTES + 1);
  let length = 0;
  while (length < bytes.length) {
    const got = file.readSync(bytes.subarray(length));
    if (got === null) break;
    length += got;
  }
  return bytes.subarray(0, length);
}

function readProblem(error: unknown): string {
  if (error instanceof Deno.errors.NotFound) return "no such file. Check --config.";
  if (error instanceof Deno.errors.PermissionDenied || error instanceof Deno.errors.NotCapable) {
    return "no permission to read this file.";
  }
  return `cannot be read (${error instanceof Error ? error.message : error}).`;
}
