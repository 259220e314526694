// The files of the user's own code that were opened, by path. May import errors, export (types).
import { UserError } from "../errors.ts";
import type { UserFile } from "./export.ts";

const opened = new Map<string, UserFile>();

export const note = (file: UserFile): void => void opened.set(file.path, file);

export const isOpen = (path: string): boolean => opened.has(path);

/** A file that was opened before anything is made of it. */
export function userFile(path: string): UserFile {
  const file = opened.get(path);
  if (!file) {
    throw new UserError("usage", `${path} can't be used here: this command takes no TypeScript files.`);
  }
  return file;
}
