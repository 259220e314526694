// The files of a Zarr store, in a folder, in a zip file, or on a server.
import { isFolder } from "../../../base/files.ts";
import { closeFile, openForReading, pread } from "../../../../ffi/libc.ts";
import { UserError } from "../../../base/errors.ts";
import { FileBytes } from "../../../base/file_bytes.ts";
import { isZip, openZip, type ZipEntry, type ZipReader } from "../../../base/zip.ts";
import type { ChunkBytes } from "../../codecs/bytes.ts";
import { markOf, namesIn, unreadable } from "../../arrays/files.ts";
import { isUrl } from "../../arrays/paths.ts";
import { ROOTS } from "./format.ts";
import { openStoreServer, type StoreFiles, tooLarge } from "./server.ts";

export function openStoreFiles(path: string): StoreFiles {
  if (isUrl(path)) return openStoreServer(path);
  return isFolder(path) ? openFolder(path) : openZipFile(path);
}

const NO_FILE = 2, NO_FOLDER = 20;

function openFolder(folder: string): StoreFiles {
  let buffer: ChunkBytes = new Uint8Array(0);
  const pathOf = (key: string) => key === "" ? folder : `${folder}/${key}`;
  const withFile = <T>(key: string, use: (descriptor: number, path: string) => T): T | null => {
    const path = pathOf(key), descriptor = openForReading(path);
    if (descriptor === -NO_FILE || descriptor === -NO_FOLDER) return null;
    if (descriptor < 0) throw unreadable(path, -descriptor);
    try {
      return use(descriptor, path);
    } finally {
      closeFile(descriptor);
    }
  };
  const bufferFor = (bytes: number): ChunkBytes => {
    if (buffer.length < bytes) buffer = new Uint8Array(bytes);
    return buffer;
  };
  return {
    whole: (key, most) =>
      withFile(key, (descriptor, path) => {
        let into = bufferFor(Math.min(most, FIRST_READ)), count = 0;
        while (true) {
          count += readAt(path, descriptor, into.subarray(count), count);
          if (count < into.length) return into.subarray(0, count);
          if (count >= most) return tooLarge(most);
          const before = into;
          into = bufferFor(Math.min(most, 4 * count));
          if (into !== before) into.set(before);
        }
      }),
    part: (key, at, bytes) =>
      withFile(key, (descriptor, path) => {
        const from = at < 0 ? Deno.statSync(path).size + at : at;
        if (from < 0) return bufferFor(0).subarray(0, 0);
        const into = bufferFor(bytes).subarray(0, bytes);
        return into.subarray(0, readAt(path, descriptor, into, from));
      }),
    has(key) {
      try {
        return Deno.statSync(pathOf(key)).isFile;
      } catch {
        return false;
      }
    },
    sizeOf(key) {
      try {
        return Deno.statSync(pathOf(key)).size;
      } catch {
        return null;
      }
    },
    markOf: (key) => markOf(pathOf(key)),
    foldersIn: (key) =>
      namesIn(pathOf(key)).filter((name) => !name.startsWith(".") && isFolder(`${pathOf(key)}/${name}`)),
    realName: (key) => Deno.realPathSync(pathOf(key)),
    close: () => {},
  };
}

/** Most chunks are smaller: what they take is read at once. */
const FIRST_READ = 2 ** 20;

function readAt(path: string, descriptor: number, into: Uint8Array, offset: number): number {
  const count = pread(descriptor, into, offset);
  if (count < 0) throw unreadable(path, -count);
  return count;
}

function openZipFile(path: string): StoreFiles {
  const file = asData(() => new FileBytes(path));
  try {
    if (!isZip(file)) {
      throw new UserError(
        "data",
        `${path} is no Zarr store: it is neither a folder nor a zip file. Check data.data_path (--data-path).`,
      );
    }
    const zip = asData(() => openZip(file, { again: true })), prefix = rootOf(zip);
    return zipFiles(path, file, zip, prefix);
  } catch (error) {
    file.close();
    throw error;
  }
}

/** Who packs a store's folder gets that folder's name in front of all. */
function rootOf({ entries }: ZipReader): string {
  if (ROOTS.some((name) => entries.has(name))) return "";
  for (const name of entries.keys()) {
    const top = name.slice(0, name.indexOf("/") + 1);
    if (top !== "" && ROOTS.includes(name.slice(top.length))) return top;
  }
  return "";
}

function zipFiles(path: string, file: FileBytes, zip: ZipReader, prefix: string): StoreFiles {
  const entryOf = (key: string) => zip.entries.get(prefix + key) ?? null;
  const read = (entry: ZipEntry, at = 0, bytes = entry.size) => {
    try {
      return zip.read(entry, at, bytes);
    } catch (error) {
      if (error instanceof UserError) return "is damaged in the zip file";
      throw error;
    }
  };
  let folders: Map<string, Set<string>> | null = null;
  return {
    whole(key, most) {
      const entry = entryOf(key);
      return entry && (entry.size > most ? tooLarge(most) : read(entry));
    },
    part(key, at, bytes) {
      const entry = entryOf(key);
      if (!entry) return null;
      const from = at < 0 ? entry.size + at : at;
      if (from < 0 || from >= entry.size) return new Uint8Array(0);
      return read(entry, from, Math.min(bytes, entry.size - from));
    },
    has: (key) => entryOf(key) !== null,
    sizeOf: (key) => entryOf(key)?.size ?? null,
    markOf: () => markOf(path),
    foldersIn: (key) => [...(folders ??= foldersOf(zip, prefix)).get(key) ?? []],
    realName: (key) => key,
    close: () => file.close(),
  };
}

function foldersOf({ entries }: ZipReader, prefix: string): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const name of entries.keys()) {
    if (!name.startsWith(prefix)) continue;
    const parts = name.slice(prefix.length).split("/").slice(0, -1);
    parts.forEach((part, i) => {
      const above = parts.slice(0, i).join("/");
      found.set(above, (found.get(above) ?? new Set()).add(part));
    });
  }
  return found;
}

function asData<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof UserError && error.kind === "checkpoint")) throw error;
    throw new UserError("data", error.message, { cause: error });
  }
}
