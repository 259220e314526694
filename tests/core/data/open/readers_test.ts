// Of what a kind is known by before its reader is loaded, some repeats what the reader has: both agree.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { FORMATS, isMade } from "../../../../core/data/open/formats.ts";
import { loadAllReaders, readerOf } from "../../../../core/data/open/readers.ts";

Deno.test("a format says of its reader what it has, and a reader is there once it is loaded", async () => {
  assertThrows(() => readerOf("synthetic"), Error, "internal: ");
  for (const [kind, { table, made, generator }] of await loadAllReaders()) {
    const { isTable = false } = FORMATS[kind];
    assertEquals([isTable, isMade(kind)], [table !== undefined, made !== undefined], kind);
    assert(made || !generator, kind);
  }
  assert(readerOf("synthetic").open);
});
