// lookup3: the values that its author gives for it.
import { assertEquals, assertThrows } from "@std/assert";
import {
  ByteSpan,
  checkSum,
  lookup3,
  Unforeseen,
} from "../../../../../../core/data/formats/netcdf/hdf5/bytes.ts";

const text = (words: string) => new TextEncoder().encode(words);

Deno.test("lookup3 gives its author's values", () => {
  assertEquals(lookup3(text("")), 0xdeadbeef);
  assertEquals(lookup3(text("Four score and seven years ago")), 0x17770551);
});

Deno.test("a structure with another sum is unforeseen", () => {
  const bytes = Uint8Array.of(...text("TREE"), 0, 0, 0, 0);
  new DataView(bytes.buffer).setUint32(4, lookup3(text("TREE")), true);
  const read = (what: Uint8Array<ArrayBuffer>) => {
    const span = new ByteSpan(what, 0);
    span.skip(4);
    checkSum(span);
  };
  read(bytes);
  for (let i = 0; i < 8; i++) {
    assertThrows(() => read(bytes.map((byte, at) => at === i ? byte ^ 1 : byte)), Unforeseen);
  }
});
