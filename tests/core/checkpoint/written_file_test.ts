// What was written is read back: all of it, once, and what differs is told by its name.
import { assertEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { WrittenFile } from "../../../core/checkpoint/zip_writer.ts";
import { inFolder } from "./python.ts";

const bytes = (length: number, seed: number) => new Uint8Array(length).map((_, i) => i * seed);
const open = (path: string) => Deno.openSync(path, { read: true, write: true, createNew: true });

/** What something else does to the file meanwhile. */
function flip(path: string, at: number): void {
  using file = Deno.openSync(path, { read: true, write: true });
  const byte = new Uint8Array(1);
  file.seekSync(at, Deno.SeekMode.Start);
  file.readSync(byte);
  byte[0] ^= 1;
  file.seekSync(at, Deno.SeekMode.Start);
  file.writeSync(byte);
}

Deno.test(
  "parts one after the other are the file, and one can be replaced before and after it is read back",
  inFolder((folder) => {
    const path = `${folder}/a`;
    using file = open(path);
    using out = new WrittenFile(file);
    out.begin("head");
    out.put(bytes(5, 1));
    out.begin("body");
    for (const seed of [3, 5]) out.put(bytes(300_000, seed));
    out.replace(0, bytes(5, 7));
    out.readBack(path);
    out.replace(0, bytes(5, 9));
    out.begin("end");
    out.put(bytes(3, 11));
    out.readBack(path);
    assertEquals(out.at, 600_008);
    const expected = [bytes(5, 9), bytes(300_000, 3), bytes(300_000, 5), bytes(3, 11)];
    assertEquals(Deno.readFileSync(path), Uint8Array.from(expected.flatMap((part) => [...part])));
    assertThrows(() => out.replace(0, bytes(4, 1)), Error, "head has 5 bytes");
  }),
);

Deno.test(
  "a byte that is not what was written is found wherever it is, and so is an end that is gone",
  inFolder((folder) => {
    const written = (at: number, damage: (path: string) => void, name: string) => {
      const path = `${folder}/${at}`;
      using file = open(path);
      using out = new WrittenFile(file);
      out.begin("head");
      out.put(bytes(5, 1));
      out.begin("body");
      out.put(bytes(600_000, 3));
      damage(path);
      assertThrows(() => out.readBack("the.pt"), UserError, `the.pt: ${name} was read back with other bytes`);
    };
    for (const at of [0, 4]) written(at, (path) => flip(path, at), "head");
    for (const at of [5, 299_999, 600_004]) written(at, (path) => flip(path, at), "body");
    written(600_005, (path) => Deno.truncateSync(path, 600_004), "body");
  }),
);

Deno.test(
  "a file that is large is written behind: the same bytes, and no more of them than were put",
  inFolder((folder) => {
    const path = `${folder}/a`, chunk = bytes(1 << 20, 3);
    using file = open(path);
    using out = new WrittenFile(file);
    out.expect(path, 40 << 20);
    out.begin("all");
    for (let i = 0; i < 36; i++) out.put(chunk); // fewer than were expected
    out.readBack(path);
    assertEquals(Deno.statSync(path).size, 36 << 20);
  }),
);
