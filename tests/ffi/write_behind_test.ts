// A file's space is there before its bytes are, and what can't be had is passed over.
import { assert, assertEquals } from "@std/assert";
import { writeBehind } from "../../ffi/libc.ts";

const MIB = 1 << 20;

Deno.test("a file that is written behind has its space at once, and its size as it is written", () => {
  const path = Deno.makeTempFileSync();
  try {
    using file = Deno.openSync(path, { write: true });
    const behind = writeBehind(path, 40 * MIB);
    const { size, blocks } = Deno.statSync(path);
    assertEquals(size, 0);
    assert(blocks! * 512 >= 40 * MIB, `${blocks} blocks`);
    for (let i = 1; i <= 33; i++) {
      file.writeSync(new Uint8Array(MIB).fill(i));
      behind.until(i * MIB);
    }
    behind.close();
    const bytes = Deno.readFileSync(path);
    assertEquals(bytes.length, 33 * MIB);
    for (let i = 1; i <= 33; i++) assertEquals([bytes[(i - 1) * MIB], bytes[i * MIB - 1]], [i, i]);
  } finally {
    Deno.removeSync(path);
  }
});

Deno.test("a file system that can reserve nothing, and a file that is gone, are no error", () => {
  for (const path of ["/dev/null", "/nowhere/at all", "/proc/self/comm"]) {
    const behind = writeBehind(path, MIB);
    behind.until(64 * MIB);
    behind.close();
  }
});
