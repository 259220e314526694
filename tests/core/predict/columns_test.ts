// Rows that were put on disk batch by batch, by one rank or several, are columns in the samples' order again.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../core/base/errors.ts";
import {
  openNamedSpool,
  openSpool,
  outlineOf,
  type PredictedPart,
  predictionColumns,
  readSpool,
  type Spool,
} from "../../../core/predict/columns.ts";
import { checkNetcdf, checkTable, columnPieces, writeCsv } from "../../../core/predict/file.ts";
import { shareOf } from "../../../core/predict/predict.ts";
import { inTemp } from "../../integration/program.ts";

/** Rows as a model would give them for these samples: [id, id / 2] each. */
const rowsOf = (ids: readonly number[]) => [
  { name: "id", shape: [], values: Int32Array.from(ids) },
  { name: "prediction", shape: [2], values: Float32Array.from(ids.flatMap((id) => [id, id / 2])) },
];

const filled = (spool: Spool, ...batches: readonly number[][]): Spool => {
  for (const ids of batches) spool.add(rowsOf(ids));
  return spool;
};

const NO_NAMES = { predicted: [], target: [] };
const all = (columns: ReturnType<typeof predictionColumns>, name: string) =>
  [...columnPieces(columns.find((column) => column.name === name)!)].flatMap((piece) => [...piece]);

Deno.test("samples of two parts, each on two ranks, come in the data's order with the part that they are of", () =>
  inTemp((folder) => {
    const out = join(folder, "p.csv");
    const spool = (...batches: number[][]) => filled(openSpool(out), ...batches);
    const parts: PredictedPart[] = [
      { role: "train", spools: [spool([0, 1, 4], [5]), spool([7, 8])] },
      { role: "val", spools: [spool([2]), spool([3, 6, 9])] },
    ];
    const columns = predictionColumns(parts, { oneTable: true, split: true }, NO_NAMES);
    const order = Array.from({ length: 10 }, (_, i) => i);
    assertEquals(all(columns, "id"), order);
    assertEquals(all(columns, "split"), [0, 0, 1, 1, 0, 0, 1, 0, 0, 1]);
    assertEquals(all(columns, "prediction"), order.flatMap((id) => [id, id / 2]));
    assertEquals([...columns[2].read(3, 2)], [3, 1.5, 4, 2]); // from the middle, and back
    assertEquals([...columns[2].read(0, 1)], [0, 0]);
    writeCsv(out, columns);
    assertEquals(Deno.readTextFileSync(out).split("\n").slice(0, 4), [
      "id,split,prediction_0,prediction_1",
      "0,train,0,0",
      "1,train,1,0.5",
      "2,val,2,1",
    ]);
    const apart = predictionColumns(parts, { oneTable: false, split: false }, NO_NAMES);
    assertEquals(all(apart, "id"), [0, 1, 4, 5, 7, 8, 2, 3, 6, 9]);
    assertEquals([...Deno.readDirSync(folder)].map(({ name }) => name), ["p.csv"]); // spools have no names
    for (const { spools } of parts) for (const spool of spools) spool.close();
  }));

Deno.test("what one rank puts down another reads, and a rank without samples has nothing to read", () =>
  inTemp((folder) => {
    const own = filled(openNamedSpool(folder, "val-1"), [3, 4], [5]);
    const columns = own.columns();
    own.close();
    const idle = readSpool(folder, "val-0", [], 0), there = readSpool(folder, "val-1", columns, 3);
    const merged = predictionColumns(
      [{ role: "val", spools: [idle, there] }],
      { oneTable: true, split: false },
      NO_NAMES,
    );
    assertEquals(all(merged, "prediction"), [3, 1.5, 4, 2, 5, 2.5]);
    Deno.truncateSync(join(folder, "val-1.prediction"), 20);
    assertThrows(() => all(merged, "prediction"), UserError, "no longer all there");
    there.close();
  }));

Deno.test("pieces are small, however many rows there are, and rows of another shape are refused", () =>
  inTemp((folder) => {
    const spool = openSpool(join(folder, "p.npz"));
    const map = { name: "prediction", shape: [64, 64], values: new Float32Array(100 * 4096).fill(1) };
    const ids = { name: "id", shape: [], values: new Int32Array(100) };
    for (let i = 0; i < 10; i++) spool.add([ids, map]);
    const columns = predictionColumns(
      [{ role: "val", spools: [spool] }],
      { oneTable: true, split: false },
      NO_NAMES,
    );
    const pieces = [...columnPieces(columns[1])].map(({ length }) => length);
    assertEquals(pieces.reduce((a, b) => a + b), 1000 * 4096);
    assert(Math.max(...pieces) <= 1 << 18, `${Math.max(...pieces)}`);
    assertThrows(
      () => spool.add([ids, { ...map, shape: [32, 128] }]),
      UserError,
      "a file has room for one shape",
    );
    spool.close();
  }));

Deno.test("what a kind of file can't hold is known from the first rows", () => {
  const map = [{ name: "id", shape: [], dtype: "i32" }, {
    name: "prediction",
    shape: [256, 256],
    dtype: "f32",
  }] as const;
  const outline = (samples: number) => outlineOf(map, samples, [], NO_NAMES);
  assertThrows(() => checkTable("csv", outline(1)), UserError, "would have 65537 columns");
  checkNetcdf(outline(16_000));
  assertThrows(() => checkNetcdf(outline(17_000)), UserError, "4 GiB");
});

Deno.test("ranks take whole batches that are the same for any number of ranks, and all of them", () => {
  for (const length of [1, 15, 16, 97]) {
    for (const world of [1, 2, 3, 7]) {
      const shares = Array.from({ length: world }, (_, rank) => shareOf(length, 16, rank, world));
      assertEquals(shares[0].from, 0);
      assertEquals(shares.at(-1)!.end, length);
      shares.slice(1).forEach(({ from }, i) => assertEquals(from, shares[i].end));
      assert(shares.every(({ from, end }) => from === end || from % 16 === 0));
    }
  }
});
