// Rows are plain data: whoever gets them opens them by the module that they name.
import { assertEquals } from "@std/assert";
import { loadRows, openRows } from "../../../../core/data/arrays/open_rows.ts";
import { groupsOf, type Rows, rowsAtOnce } from "../../../../core/data/arrays/rows.ts";
import type { MadeRows } from "./made_rows.ts";

const MADE: MadeRows = {
  ...{ layout: "format", module: new URL("./made_rows.ts", import.meta.url).href, access: "file", factor: 3 },
  ...{ file: { path: "made", size: 0, changed: 0 }, shape: [6, 2], chunk: [4, 2], lead: 1, width: 1 },
};

Deno.test("rows of a format are opened by the module that they name, alone and as a part of others", async () => {
  const parts: Rows = { layout: "parts", starts: [0, 6, 12], parts: [MADE, { ...MADE, factor: 5 }] };
  const picked: Rows = {
    ...{ layout: "picked", rows: parts, outer: [{ places: Int32Array.of(5, 8), step: 1 }] },
    ...{ inner: Int32Array.of(0), bytes: 2, runs: Int32Array.of(0, 1) },
  };
  await loadRows([picked]);
  const read = (rows: Rows, row: number, bytes: number) => {
    const reader = openRows({ name: "x", rows, raw: "u8" }), into = new Uint8Array(bytes);
    reader.read(row, into);
    reader.close();
    return [...into];
  };
  assertEquals(read(MADE, 4, 2), [12, 12]);
  assertEquals(read(parts, 8, 2), [10, 10]);
  assertEquals([0, 1].map((row) => read(picked, row, 1)), [[15], [10]]);
});

Deno.test("rows of one chunk are unpacked together and share a number, whatever format they are of", () => {
  assertEquals(rowsAtOnce(MADE), 4);
  const { groupOf, count } = groupsOf(MADE)!;
  assertEquals([0, 3, 4, 5].map(groupOf), [0, 0, 1, 1]);
  assertEquals(count, 2);
});
