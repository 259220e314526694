// Ranges of a file, and numbers in them: nothing is read that is not there.
import { assertEquals, assertThrows } from "@std/assert";
import { ByteSpan, textOfName, Unforeseen } from "../../../../../../core/data/formats/netcdf/hdf5/bytes.ts";
import { viewOf } from "../../../../../../core/data/formats/netcdf/hdf5/header.ts";

const refused = (act: () => unknown) => void assertThrows(act, Unforeseen);

Deno.test("no range outside the file is asked for, and none that is huge", () => {
  const asked: number[][] = [];
  const file = {
    read: (into: Uint8Array, at: number) => void asked.push([at, into.length]),
    close: () => {},
  };
  const view = viewOf(file, 100);
  assertEquals(view.at(90, 10).address, 90);
  for (const [at, length] of [[90, 11], [-1, 4], [101, 0], [NaN, 1], [0, -1], [0, NaN], [2 ** 53, 8]]) {
    refused(() => view.at(at, length));
  }
  refused(() => viewOf(file, 2 ** 40).at(0, 2 ** 30));
  assertEquals(asked, [[90, 10]]);
});

Deno.test("numbers end where their bytes end, and are exact or refused", () => {
  const span = new ByteSpan(Uint8Array.of(1, 2, 0, 0, 0, 0, 0, 32, 0, 255), 40);
  assertEquals([span.u8(), span.left], [1, 9]);
  refused(() => span.uint(8)); // 0x20000000000002: more than a double counts
  const rest = new ByteSpan(Uint8Array.of(7, 1, 97, 98, 0, 9), 40);
  assertEquals([rest.u16(), textOfName(rest.name()), rest.take(1).address, rest.left], [263, "ab", 45, 0]);
  refused(() => rest.u8());
  refused(() => new ByteSpan(Uint8Array.of(97, 98), 0).name());
  refused(() => textOfName(Uint8Array.of(0xff)));
  assertEquals(new ByteSpan(new Uint8Array(8).fill(255), 0).address8(), null);
});
