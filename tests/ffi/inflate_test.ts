// Zlib data unpacked by either library: what was packed, or no.
import { assert, assertEquals } from "@std/assert";
import { deflateSync } from "node:zlib";
import { byRuntime, openInflate } from "../../ffi/codecs.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();

for (const [name, inflate] of [["this machine's", openInflate()], ["the runtime's", byRuntime]] as const) {
  Deno.test(`${name} inflate fills exactly what was packed, and refuses everything else`, () => {
    for (const length of [1, 100, 70_000, 3_000_000]) {
      const values = Uint8Array.from({ length }, (_, i) => i % 251 * (i >> 10));
      const packed = Uint8Array.from(deflateSync(values));
      const into = new Uint8Array(length);
      assert(inflate(packed, into));
      assertEquals(into, values);
      assert(!inflate(packed, new Uint8Array(length - 1)), "room for fewer bytes");
      assert(!inflate(packed, new Uint8Array(length + 1)), "room for more bytes");
      assert(!inflate(packed.subarray(0, packed.length - 5), into), "cut off");
      const damaged = packed.slice();
      damaged[damaged.length - 1] ^= 1;
      assert(!inflate(damaged, into), "another checksum");
    }
    assert(!inflate(new Uint8Array(50), new Uint8Array(10)), "no zlib data");
  });
}
