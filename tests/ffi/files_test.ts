// Bytes at a position: all of them, those up to the end, and the system's word for what can't be.
import { assertEquals } from "@std/assert";
import { closeFile, openForReading, pread } from "../../ffi/libc.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();

Deno.test("pread gives the bytes at any position, beyond 4 GiB too, and fewer at the end of the file", () => {
  const path = Deno.makeTempFileSync();
  const far = 5 * 2 ** 30;
  using file = Deno.openSync(path, { write: true });
  file.writeSync(Uint8Array.of(1, 2, 3, 4, 5));
  file.seekSync(far, Deno.SeekMode.Start);
  file.writeSync(Uint8Array.of(6, 7, 8));
  const descriptor = openForReading(path);
  try {
    const read = (length: number, at: number) => {
      const into = new Uint8Array(length);
      return [pread(descriptor, into, at), ...into];
    };
    assertEquals(read(3, 1), [3, 2, 3, 4]);
    assertEquals(read(2, 0), [2, 1, 2]);
    assertEquals(read(4, far), [3, 6, 7, 8, 0]);
    assertEquals(read(2, far + 100), [0, 0, 0]);
    assertEquals(pread(descriptor, new Uint8Array(0), 0), 0);
  } finally {
    closeFile(descriptor);
    Deno.removeSync(path);
  }
});

Deno.test("what can't be opened or read is said with the system's number", () => {
  assertEquals(openForReading("/nowhere/at all"), -2);
  const folder = openForReading("/");
  assertEquals(pread(folder, new Uint8Array(8), 0), -21);
  closeFile(folder);
  assertEquals(pread(folder, new Uint8Array(8), 0), -9);
});
