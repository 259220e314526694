// Files are read by position, so that a checkpoint is never read whole.
import { clean } from "./terminal.ts";
import { basename, dirname } from "../../deps/path.ts";
import { messageOf, UserError } from "./errors.ts";
import { byNearness } from "./suggest.ts";

export function damagedCheckpoint(path: string, what: string): UserError {
  return new UserError("checkpoint", `${path}: ${printable(what)}${/[.?]$/.test(what) ? "" : "."}`);
}

/** The text is one line without characters that could steer a terminal. */
export function printable(text: string): string {
  return clean(
    text.replaceAll(/\p{Cc}/gu, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`),
  );
}

export class FileBytes {
  readonly size: number;
  readonly #file: Deno.FsFile;

  constructor(readonly path: string) {
    try {
      // Opening a named pipe would wait for its writer, so the kind is checked first.
      const info = Deno.statSync(path);
      if (info.isDirectory) {
        throw damagedCheckpoint(
          path,
          "is a folder without a model.safetensors.index.json, so it is no checkpoint (name the .pt or .safetensors file in it)",
        );
      }
      if (!info.isFile) {
        throw damagedCheckpoint(path, "is not a regular file, so it can't be read as a checkpoint");
      }
      this.#file = Deno.openSync(path);
      this.size = info.size;
    } catch (error) {
      throw openError(path, error);
    }
  }

  read(offset: number, length: number): Uint8Array<ArrayBuffer> {
    // The range is checked before memory is taken: a hostile length must cost nothing.
    this.#inside(offset, length);
    const bytes = new Uint8Array(length);
    this.readInto(offset, bytes);
    return bytes;
  }

  readInto(offset: number, bytes: Uint8Array): void {
    this.#inside(offset, bytes.length);
    try {
      this.#file.seekSync(offset, Deno.SeekMode.Start);
      for (let done = 0; done < bytes.length;) {
        const count = this.#file.readSync(bytes.subarray(done));
        if (count === null) {
          throw damagedCheckpoint(
            this.path,
            "became shorter while it was being read: is something else writing it?",
          );
        }
        done += count;
      }
    } catch (error) {
      throw openError(this.path, error);
    }
  }

  #inside(offset: number, length: number): void {
    if (offset >= 0 && length >= 0 && offset + length <= this.size) return;
    throw damagedCheckpoint(
      this.path,
      `is truncated: ${length} bytes wanted at ${offset}, and the file ends at ${this.size}`,
    );
  }

  close(): void {
    try {
      this.#file.close();
    } catch {
      // Closing twice is no fault.
    }
  }
}

function openError(path: string, error: unknown): unknown {
  if (error instanceof UserError) return error;
  if (error instanceof Deno.errors.NotFound) {
    return new UserError("checkpoint", `${path}: there is no such file.${besideIt(path)}`);
  }
  if (error instanceof Deno.errors.PermissionDenied) {
    return new UserError("checkpoint", `${path}: this user may not read the file (see: ls -l ${path}).`);
  }
  const reason = messageOf(error);
  return new UserError("checkpoint", `${path}: can't be read: ${reason}.`, { cause: error });
}

/** So many names of files beside a missing one are told. */
const MOST_NAMES = 5;

/** A sentence that follows another: which files of its kind are where the missing one should be. */
function besideIt(path: string): string {
  const ending = (name: string) => /\.[^.]*$/.exec(name)?.[0];
  const folder = dirname(path);
  let names: string[];
  try {
    names = [...Deno.readDirSync(folder)].map(({ name }) => name);
  } catch {
    return ` There is no folder ${folder}, either.`;
  }
  const near = byNearness(
    basename(path),
    names.filter((name) => ending(name) === ending(path) && name[0] !== "."),
  );
  if (near.length === 0) return "";
  const more = near.length > MOST_NAMES ? `, and ${near.length - MOST_NAMES} more` : "";
  return ` In ${folder} there are ${near.slice(0, MOST_NAMES).map(printable).join(", ")}${more}.`;
}
