// A file that ends with a whole record at any time at which the disk allows it.
import { dirname } from "../../deps/path.ts";

export interface AppendedFile {
  /** Throws where the disk refuses; what it took of the record goes as soon as the disk allows it. */
  append(bytes: Uint8Array): void;
  /** The next record begins here. */
  readonly end: number;
  /** Somebody has removed the file. */
  readonly gone: boolean;
  close(): void;
}

/** Bytes behind `end` are cut off; by default all stay. */
export function openAppended(path: string, end?: number): AppendedFile {
  Deno.mkdirSync(dirname(path), { recursive: true });
  const file = Deno.openSync(path, { write: true, create: true });
  if (end !== undefined) file.truncateSync(end);
  let offset = file.seekSync(end ?? 0, end === undefined ? Deno.SeekMode.End : Deno.SeekMode.Start);
  let torn = false; // a part of a record may follow `offset`
  const mend = () => {
    file.truncateSync(offset);
    file.seekSync(offset, Deno.SeekMode.Start);
    torn = false;
  };
  return {
    append(bytes) {
      if (torn) mend();
      torn = true;
      for (let done = 0; done < bytes.length;) done += file.writeSync(bytes.subarray(done));
      torn = false;
      offset += bytes.length;
    },
    get end() {
      return offset;
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
}
