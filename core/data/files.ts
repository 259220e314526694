// Data files by position, in the voice of data: every fault is of the kind "data". May import errors, checkpoint's
// reader of files.
import { FileBytes } from "../checkpoint/file_bytes.ts";
import { UserError } from "../errors.ts";

/** Runs `use` with a way to open files; all of them are closed when it ends. */
export function withFiles<R>(use: (open: (path: string) => FileBytes) => R): R {
  const files = new Map<string, FileBytes>();
  try {
    return use((path) => {
      const file = files.get(path) ?? new FileBytes(path);
      files.set(path, file);
      return file;
    });
  } catch (error) {
    if (!(error instanceof UserError && error.kind === "checkpoint")) throw error;
    throw new UserError("data", error.message, { cause: error });
  } finally {
    for (const file of files.values()) file.close();
  }
}

export function isFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false; // opening it as a file then says why it can't be
  }
}

/** The names in a folder, sorted. */
export function namesIn(folder: string): string[] {
  try {
    return [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
  } catch (cause) {
    throw new UserError("data", `${folder} can't be listed: this user may not read the folder.`, { cause });
  }
}
