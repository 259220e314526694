// A .wandb file that is cut at each byte, or has each byte flipped: what can be read is told and uploaded, and no more.
import { assert, assertEquals } from "@std/assert";
import { dirname, join } from "paths";
import { readFrames } from "../../../../../core/outputs/wandb/file.ts";
import { readAtOfBytes } from "../runs.ts";
import { openContents, openWandbReader } from "../../../../../core/outputs/wandb/sync/contents.ts";
import { inspectWandb } from "../../../../../commands/run/inspect_wandb.ts";
import { inTemp } from "../../../../integration/program.ts";
import { openWandbServer } from "../../../../integration/wandb_server.ts";
import { printed } from "../../../../commands/printed.ts";
import { range, stepsOf, upload, uploadWithin, writeRun } from "./rig.ts";

const ROWS = 3;
const small = (folder: string) => writeRun(folder, { rows: ROWS, output: ["a\n"] });

interface Read {
  readonly rows: number[];
  readonly run: string | null;
  readonly exit: boolean;
  readonly damages: number;
}

function readAll(path: string): Read {
  const contents = openContents("test");
  const reading = openWandbReader(path, false);
  try {
    assert(reading.read(contents, () => false));
    contents.end();
    return {
      rows: contents.history.rows.map(({ step }) => step),
      run: contents.run?.id ?? null,
      exit: contents.exit !== null,
      damages: reading.damages.length,
    };
  } finally {
    reading.close();
  }
}

/** Where each record of the sound file ends. */
const ends = (bytes: Uint8Array): number[] => [...readFrames(readAtOfBytes(bytes))].map(({ end }) => end);

Deno.test("cut at any byte: all whole records before it are read, and it is said unless the cut is between two", () =>
  inTemp((folder) => {
    const path = small(folder);
    const bytes = Deno.readFileSync(path);
    const sound = ends(bytes);
    // header, run, output, then row and sample, row, row and sample, summary, exit
    const rowEnds = [sound[3], sound[5], sound[6]];
    for (let size = 0; size <= bytes.length; size++) {
      Deno.writeFileSync(path, bytes.subarray(0, size));
      const { rows, run, exit, damages } = readAll(path);
      assertEquals(run, size >= sound[1] ? "abc" : null, `${size}`);
      assertEquals(rows, range(0, rowEnds.filter((end) => end <= size).length), `${size}`);
      assertEquals(exit, size >= sound.at(-1)!, `${size}`);
      assertEquals(damages, size === 7 || sound.includes(size) ? 0 : 1, `${size}`);
    }
  }));

Deno.test("with any byte flipped nothing is read that was not written, and it is said", () =>
  inTemp((folder) => {
    const path = small(folder);
    const bytes = Deno.readFileSync(path);
    const starts = [0, ...ends(bytes)];
    for (let at = 0; at < bytes.length; at++) {
      const flipped = bytes.slice();
      flipped[at] ^= 1 << (at % 8);
      Deno.writeFileSync(path, flipped);
      const { rows, run, damages } = readAll(path);
      assertEquals(damages, 1, `byte ${at}`);
      assertEquals(rows, range(0, rows.length), `byte ${at}`);
      const before = starts.findLastIndex((start) => start <= at);
      if (at >= 7 && before >= 2) assertEquals(run, "abc", `byte ${at}`);
      if (before >= 8) assertEquals(rows.length, ROWS, `byte ${at}`);
    }
  }));

Deno.test("behind a damaged block of a larger file reading goes on", () =>
  inTemp((folder) => {
    const path = writeRun(folder, { rows: 100, padding: 2000 });
    const bytes = Deno.readFileSync(path);
    bytes[40_000] ^= 255;
    Deno.writeFileSync(path, bytes);
    const { rows, exit, damages } = readAll(path);
    assert(rows.length > 60 && rows.length < 100, `${rows.length} rows`);
    assertEquals(rows.at(-1), 99);
    assert(exit && damages >= 1);
  }));

Deno.test("what can be read of a damaged file is uploaded, and the file is not marked", () =>
  inTemp(async (folder) => {
    const path = small(folder);
    const bytes = Deno.readFileSync(path);
    const sound = ends(bytes);
    const cases: [number, number][] = [[sound[6] + 3, 3], [sound[5] + 9, 2], [bytes.length - 1, 3], [
      sound[1],
      0,
    ]];
    for (const [size, rows] of cases) {
      Deno.writeFileSync(path, bytes.subarray(0, size));
      await using server = openWandbServer();
      const { state, damages } = await upload(server, path);
      const cut = !sound.includes(size);
      assertEquals([state, damages.length], cut ? ["damaged", 1] : ["synced", 0]);
      const { lines, complete, exitCode } = server.run();
      assertEquals([stepsOf(lines.history), complete, exitCode], [range(0, rows), true, 1]);
      // Once more changes nothing.
      if (cut) assertEquals((await upload(server, path)).rows, { sent: 0, had: rows });
      assertEquals(stepsOf(server.run().lines.history), range(0, rows));
      for (const left of [".synced", ".uploaded.json", ".syncstate"]) {
        try {
          Deno.removeSync(path + left);
          assert(left !== ".synced" || !cut, "a damaged file is not marked");
        } catch (error) {
          assert(error instanceof Deno.errors.NotFound && left === ".synced" && cut, `${left}: ${error}`);
        }
      }
    }
  }));

Deno.test("a file without a run uploads nothing", () =>
  inTemp(async (folder) => {
    const path = small(folder);
    const bytes = Deno.readFileSync(path);
    const flipped = bytes.slice();
    flipped[ends(bytes)[0] + 20] ^= 4;
    for (
      const damaged of [new Uint8Array(), bytes.subarray(0, 7), flipped, new TextEncoder().encode("not one")]
    ) {
      Deno.writeFileSync(path, damaged);
      await using server = openWandbServer();
      assertEquals((await upload(server, path)).state, "empty");
      assertEquals(server.seen.length, 0);
    }
  }));

/** The sound file, cut at each byte and with a bit of each flipped, one after the other. */
function* damagedOnes(bytes: Uint8Array): Generator<[name: string, damaged: Uint8Array]> {
  for (let at = 0; at < bytes.length; at++) {
    yield [`cut at ${at}`, bytes.subarray(0, at)];
    yield [`a bit of byte ${at}`, bytes.with(at, bytes[at] ^ (1 << (at % 8)))];
  }
}

Deno.test("inspect says of a cut at each byte, and of a bit of each, what could be read, and exits with 3", () =>
  inTemp(async (folder) => {
    const path = small(folder);
    const bytes = Deno.readFileSync(path);
    const sound = ends(bytes);
    for (const [name, damaged] of damagedOnes(bytes)) {
      Deno.writeFileSync(path, damaged);
      const [code, text] = await printed(() => Promise.resolve(inspectWandb(path, true)));
      const told = JSON.parse(text), there = readAll(path);
      assertEquals(
        [told.rows, told.run, told.damages.length],
        [there.rows.length, there.run, there.damages],
        name,
      );
      const betweenTwo = damaged.length < bytes.length && sound.slice(1).includes(damaged.length);
      assertEquals(code, betweenTwo ? 0 : 3, name);
    }
  }));

Deno.test("of a file cut at each byte, and with a bit of each flipped, just what can be read is uploaded", () =>
  inTemp(async (folder) => {
    const path = small(folder);
    const bytes = Deno.readFileSync(path);
    const whole = readAll(path);
    await using server = openWandbServer();
    for (const [name, damaged] of damagedOnes(bytes)) {
      Deno.writeFileSync(path, damaged);
      const { rows, run, exit, damages } = readAll(path);
      const { state } = await uploadWithin(server, path);
      assertEquals(state, run === null ? "empty" : damages > 0 ? "damaged" : "synced", name);
      if (run === null) assertEquals(server.runs.size, 0, name);
      else {
        const { lines, complete, exitCode } = server.run();
        assertEquals([stepsOf(lines.history), complete, exitCode], [rows, true, exit ? 0 : 1], name);
        assert(rows.every((row, i) => row === whole.rows[i]), name);
      }
      (server.runs as Map<string, unknown>).clear();
      server.seen.length = 0;
      const left = [...Deno.readDirSync(dirname(path))].map(({ name }) => name).filter((one) =>
        one !== "files"
      );
      assertEquals(left.some((one) => one.endsWith(".synced")), state === "synced", name);
      for (const one of left) Deno.removeSync(join(dirname(path), one));
    }
  }));
