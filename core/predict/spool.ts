// Rows are put on disk as they are predicted, a file a column, until all are there: no more than a batch of them is ever
// in memory. May import errors, data's faults, checkpoint's atomic writes, predict (types).
import { join } from "../../deps/path.ts";
import { temporaryFor, writeAll } from "../checkpoint/atomic.ts";
import { reading, writing } from "../data/packed/faults.ts";
import { UserError } from "../errors.ts";
import type { Some } from "./predict.ts";

/** A column as it was put down: all of its rows have this shape. */
export interface Kept {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: "i32" | "f32";
}

export interface Spool {
  add(rows: readonly Some[]): void;
  /** What was put down; nothing yet before the first rows. */
  columns(): readonly Kept[];
  rows(): number;
  /** Rows of one column, from the file. */
  read(column: string, from: number, count: number): Int32Array | Float32Array;
  close(): void;
}

interface File {
  readonly kept: Kept;
  readonly file: Deno.FsFile;
}

/** Beside `out`, in files that have no name: they are gone with this process, however it ends. */
export function openSpool(out: string): Spool {
  return spool(out, () => {
    const path = temporaryFor(out);
    return writing(out, () => {
      const file = Deno.openSync(path, { read: true, write: true, createNew: true });
      Deno.removeSync(path);
      return file;
    });
  }, null);
}

/** In this folder, for another rank to read. */
export function openNamedSpool(folder: string, name: string): Spool {
  return spool(folder, (column) => {
    const path = join(folder, `${name}.${column}`);
    return writing(path, () => Deno.openSync(path, { read: true, write: true, createNew: true }));
  }, null);
}

/** What another rank has put down there. */
export function readSpool(folder: string, name: string, columns: readonly Kept[], rows: number): Spool {
  const open = (column: string) => {
    const path = join(folder, `${name}.${column}`);
    return reading(path, () => Deno.openSync(path, { read: true }));
  };
  return spool(folder, open, { columns: rows === 0 ? [] : columns, rows });
}

function spool(
  where: string,
  open: (column: string) => Deno.FsFile,
  there: { columns: readonly Kept[]; rows: number } | null,
): Spool {
  let count = there?.rows ?? 0;
  const files = new Map<string, File>();
  for (const kept of there?.columns ?? []) files.set(kept.name, { kept, file: open(kept.name) });
  const fileOf = ({ name, shape, values }: Some): File => {
    const kept = { name, shape, dtype: values instanceof Int32Array ? "i32" : "f32" } as const;
    const found = files.get(name) ?? { kept, file: open(name) };
    files.set(name, found);
    if (found.kept.shape.join() === shape.join()) return found;
    throw new UserError(
      "data",
      `The model's ${name} has the shape [${found.kept.shape.join(", ")}] for the first samples and [${
        shape.join(", ")
      }] for some after sample ${count}: a file has room for one shape. Predict samples of one size at a time.`,
    );
  };
  return {
    add(rows) {
      for (const some of rows) {
        const { file } = fileOf(some);
        const { buffer, byteOffset, byteLength } = some.values;
        writing(where, () => writeAll(file, new Uint8Array(buffer, byteOffset, byteLength)));
      }
      count += rows[0].values.length;
    },
    columns: () => [...files.values()].map(({ kept }) => kept),
    rows: () => count,
    read(column, from, count) {
      const { kept: { shape, dtype }, file } = files.get(column)!;
      const each = shape.reduce((product, size) => product * size, 1);
      const made = new (dtype === "i32" ? Int32Array : Float32Array)(count * each);
      const bytes = new Uint8Array(made.buffer);
      reading(where, () => file.seekSync(from * each * 4, Deno.SeekMode.Start));
      for (let done = 0; done < bytes.length;) {
        const got = reading(where, () => file.readSync(bytes.subarray(done)));
        if (!got) throw new UserError("data", `${where}: what was predicted is no longer all there.`);
        done += got;
      }
      return made;
    },
    close() {
      for (const { file } of files.values()) file.close();
    },
  };
}
