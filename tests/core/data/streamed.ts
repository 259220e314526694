// Data read a sample at a time beside the same data in memory. Test helper.
import { assert, assertEquals, assertThrows } from "@std/assert";
import type { Config } from "../../../core/settings/settings.ts";
import type { ArraysSpec } from "../../../core/data/tables/reader.ts";
import { loadDataReader, openData } from "../../../core/data/open/open.ts";
import { batchOf, plainPart, type Source } from "../../../core/data/source/source.ts";
import { UserError } from "../../../core/base/errors.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { scope } from "../../../ffi/tensor.ts";
import { python } from "../checkpoint/python.ts";
import { range, settings } from "./tables/help.ts";

export interface Changes {
  readonly data?: Partial<Config["data"]>;
  readonly training?: Partial<Config["training"]>;
  readonly model?: Partial<Config["model"]>;
}

/** Opens the data, in memory or not; a quarter of it validates, and numbers are quantities unless told. */
export async function open(path: string, in_memory: "yes" | "no" | "auto", changes: Changes = {}) {
  const config = settings({
    data: { data_path: path, in_memory, validation_split: 0.25, normalise: "none", ...changes.data },
    model: changes.model,
  });
  Object.assign(config.training, { loss: "mse", ...changes.training });
  await loadDataReader(config.data);
  return openData(config.data, config.training, config.model);
}

/** Both fields of these samples, as numbers. */
export const numbers = (source: Source, ids = range(0, source.length)): number[][] =>
  scope(() => {
    const { input, target } = batchOf(source, plainPart(ids));
    return [[...toNumbers(input)], [...toNumbers(target)]];
  });

/** Asserts that reading a sample at a time gives what memory has, in any order; the streamed data. */
export async function alike(path: string, changes: Changes = {}) {
  const held = await open(path, "yes", changes), read = await open(path, "no", changes);
  for (const which of ["train", "val"] as const) {
    const [a, b] = [held[which]!, read[which]!];
    assert(!a.threaded && b.threaded, `${which} is read a sample at a time`);
    assertEquals([b.length, b.input, b.target, b.facts], [a.length, a.input, a.target, a.facts]);
    assertEquals([...b.indices ?? []], [...a.indices ?? []]);
    assertEquals(numbers(b), numbers(a), which);
    const some = [a.length - 1, 0, a.length >> 1, a.length - 1];
    assertEquals(numbers(b, some), numbers(a, some), `${which}, some`);
  }
  return read;
}

/** How the parts of a sample are read: formats' own modules by their file's names. */
const OF_FORMATS: Readonly<Record<string, string>> = {
  chunk_rows: "chunks",
  library: "library",
  chunk_files: "store",
};

export const layouts = ({ threaded }: Source): string[] =>
  (threaded!.reader as ArraysSpec).parts.map(({ rows }) =>
    rows.layout === "format" ? OF_FORMATS[/(\w+)\.ts$/.exec(rows.module)![1]] : rows.layout
  );

/** The sentence that reading some samples ends with. */
export function refusedReading(source: Source, ids: number[]): string {
  const error = assertThrows(() => numbers(source, ids), UserError);
  assertEquals(error.kind, "data", error.message);
  return error.message;
}

/** Runs Python in `folder` with numpy as np and r as its random numbers; what it prints, as JSON. */
export const written = (folder: string, code: string) =>
  JSON.parse(
    python(
      `import os, sys, json, numpy as np\nos.chdir(sys.argv[1])\nr = np.random.default_rng(0)\n${code}`,
      folder,
    ) || "null",
  );
