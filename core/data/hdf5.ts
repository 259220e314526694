// HDF5 files, and NetCDF-4 files, which are HDF5 inside: their datasets as variables. May import errors, hdf5/,
// hdf5_library.
import { UserError } from "../errors.ts";
import { byLibrary } from "./hdf5/by_library.ts";
import type { Hdf5 } from "./hdf5/meaning.ts";
import { readOwn } from "./hdf5/own.ts";
import { isLoaded } from "./hdf5_library.ts";
import { loadKind } from "./reading/kinds.ts";

export type { Hdf5 };

const SIGNATURE = [0x89, 0x48, 0x44, 0x46, 0x0d, 0x0a, 0x1a, 0x0a];

/** Whether these first bytes of a file say HDF5. */
export const isHdf5 = (head: Uint8Array): boolean => SIGNATURE.every((byte, i) => head[i] === byte);

/** Must have come to its end before the file is opened: brings HDF5's library if this file needs it. */
export async function loadHdf5For(path: string): Promise<void> {
  if (readOwn(path) === null) await loadKind("hdf5");
}

/** Opens a file, which stays open while `use` runs. */
export function withHdf5<R>(path: string, use: (content: Hdf5) => R): R {
  const own = readOwn(path);
  if (own) return use(own);
  if (isLoaded()) return byLibrary(path, use);
  throw new UserError("data", `${path} was changed while it was being opened: is something else writing it?`);
}
