// The processor time of each way to decode a JPEG and to read HDF5: the tables of docs/design/data.md.
// deno run -A bench/data_ways.ts jpeg FOLDER_OF_CLASSES, or hdf5 FILE, of bench/peers/loader_data.py.
import { cpuUsage } from "node:process";
import { join } from "paths";
import { openRows } from "../core/data/arrays/open_rows.ts";
import { product } from "../core/data/arrays/numbers.ts";
import { type Rows, rowsAtOnce, type StoredRows } from "../core/data/arrays/rows.ts";
import { markOf } from "../core/data/arrays/files.ts";
import type { Hdf5 } from "../core/data/formats/netcdf/hdf5/datatype.ts";
import { byLibrary } from "../core/data/formats/netcdf/hdf5/hdf5.ts";
import { type LibraryRows, loadHdf5, slabRows } from "../core/data/formats/netcdf/hdf5/library.ts";
import { readOwn } from "../core/data/formats/netcdf/hdf5/own_reader.ts";
import { headerOf, type JpegHeader, openReusedBuffer } from "../core/data/images/header.ts";
import { turboJpeg } from "../core/data/images/stored.ts";
import { openJpeg, openTurboWasm } from "../core/data/images/jpeg.ts";
import { openTurboJpeg, type TurboJpeg } from "../ffi/codecs.ts";

const ROUNDS = 3, IMAGES = 500;

/** Seconds of processor time, of the user and the system, in all threads of this process. */
async function cost(act: () => unknown): Promise<number> {
  const before = cpuUsage();
  await act();
  const { user, system } = cpuUsage(before);
  return (user + system) / 1e6;
}

const say = (what: string, figure: number, unit: string) =>
  console.log(`${what.padEnd(44)} ${Math.round(figure)} ${unit}`);

async function rate(what: string, count: number, act: () => void): Promise<void> {
  act();
  let best = Infinity;
  for (let round = 0; round < ROUNDS; round++) best = Math.min(best, await cost(act));
  say(what, count / best, "a second");
}

async function decodeJpegs(folder: string): Promise<void> {
  const paths = [...Deno.readDirSync(folder)].flatMap(({ name }) =>
    [...Deno.readDirSync(join(folder, name))].map((file) => join(folder, name, file.name))
  );
  const files = paths.slice(0, IMAGES).map((path) => Deno.readFileSync(path));
  const headers = files.map((file) => headerOf(file) as JpegHeader);
  const site = turboJpeg();
  const libraries: [string, TurboJpeg | null][] = [
    ["fast_jpeg.wasm", null],
    ["libjpeg-turbo as WebAssembly", openTurboWasm()],
    ...(site ? [["the machine's libturbojpeg", openTurboJpeg(site)] as [string, TurboJpeg]] : []),
  ];
  for (const [name, library] of libraries) {
    const decode = openJpeg(library, openReusedBuffer());
    await rate(name, files.length, () => files.forEach((file, i) => decode(file, headers[i])));
  }
}

async function readHdf5(path: string): Promise<void> {
  let own: Hdf5 | null = null;
  say("structure by our reader", 1000 * await cost(() => own = readOwn(path)), "ms");
  say("the library is loaded", 1000 * await cost(loadHdf5), "ms");
  say("structure by the library", 1000 * await cost(() => byLibrary(path, () => {})), "ms");
  const { shape, rows } = own!.variables.find(({ name }) => name === "maps")!;
  const found = rows(1) as Rows, into = new Uint8Array(4 * product(shape.slice(1)));
  const together = rowsAtOnce(found as StoredRows);
  const slabs = { file: markOf(path), shape, chunk: [together, ...shape.slice(1)], lead: 1, width: 4 };
  const library = {
    layout: "format",
    module: slabRows,
    access: "alone",
    dataset: "maps",
    elsewhere: false,
  } as const;
  const ofLibrary: LibraryRows = { ...library, ...slabs };
  const read = (rows: Rows) => () => {
    const reader = openRows({ name: "maps", rows, raw: "f32" });
    for (let row = 0; row < shape[0]; row++) reader.read(row, into);
    reader.close();
  };
  await rate("rows by our reader", shape[0], read(found));
  await rate("rows by the library", shape[0], read(ofLibrary as Rows));
}

const [what, path] = Deno.args;
await (what === "jpeg" ? decodeJpegs(path) : readHdf5(path));
