// zstd's frames by the machine's library and by the runtime: the same bytes, and nothing but exactly those.
import { zstdCompressSync } from "node:zlib";
import { assert, assertEquals } from "@std/assert";
import { openZstd, zstdByRuntime } from "../../ffi/codecs.ts";

for (const [name, unpack] of [["this machine's", openZstd()], ["the runtime's", zstdByRuntime]] as const) {
  Deno.test(`zstd by ${name}: frames of any content fill their room exactly, and damage is no answer`, () => {
    for (const length of [1, 31, 1000, 100_000]) {
      const bytes = Uint8Array.from({ length }, (_, i) => i * i >> (i % 7));
      const packed = new Uint8Array(zstdCompressSync(bytes)), into = new Uint8Array(length);
      assert(unpack(packed, into));
      assertEquals(into, bytes);
      assert(!unpack(packed, new Uint8Array(length + 1)));
      assert(!unpack(packed, new Uint8Array(length - 1)) || length === 1);
      assert(!unpack(packed.subarray(0, packed.length >> 1), into));
      assert(!unpack(bytes, into));
    }
  });
}
