// A .wandb file that is written record by record, each by one write: what a kill leaves is whole but for the last one.
// May import frames.ts, records.ts, @std/path.
import { dirname } from "../../../deps/path.ts";
import { frame, HEADER } from "./frames.ts";
import { encodeRecord, type WandbRecord } from "./records.ts";

export interface WandbFile {
  /** Throws where the disk refuses; the file then ends with the last whole record as soon as the disk lets it. */
  append(record: WandbRecord): void;
  /** Whether somebody has removed it: what is written goes nowhere then. */
  readonly gone: boolean;
  close(): void;
}

/** A new file; the folder is made where it is missing. */
export function createWandbFile(path: string): WandbFile {
  Deno.mkdirSync(dirname(path), { recursive: true });
  const file = Deno.openSync(path, { write: true, create: true, truncate: true });
  writeWhole(file, HEADER);
  return writer(file, HEADER.length, 0);
}

/** Goes on behind the last whole record, which ends there and is the `count`-th. */
export function continueWandbFile(path: string, end: number, count: number): WandbFile {
  const file = Deno.openSync(path, { write: true });
  file.truncateSync(end);
  file.seekSync(end, Deno.SeekMode.Start);
  return writer(file, end, count);
}

function writer(file: Deno.FsFile, offset: number, count: number): WandbFile {
  let torn = false; // there may be a part of a record behind `offset`
  return {
    append(record) {
      if (torn) mend();
      const bytes = frame(encodeRecord(record, count + 1), offset);
      torn = true;
      writeWhole(file, bytes);
      torn = false;
      offset += bytes.length;
      count++;
    },
    get gone() {
      return file.statSync().nlink === 0;
    },
    close() {
      try {
        if (torn) mend();
      } catch { /* readers pass over a cut record */ }
      file.close();
    },
  };

  function mend(): void {
    file.truncateSync(offset);
    file.seekSync(offset, Deno.SeekMode.Start);
    torn = false;
  }
}

function writeWhole(file: Deno.FsFile, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length;) done += file.writeSync(bytes.subarray(done));
}
