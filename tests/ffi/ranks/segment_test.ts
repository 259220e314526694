// Memory without a name, and who can't have it.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { makeSegment, mapSegment, type SharedSegment } from "../../../ffi/ranks/shared.ts";

function made(bytes: number): SharedSegment {
  const segment = makeSegment(bytes);
  if (typeof segment === "string") throw new Error(segment);
  return segment;
}

const libraryStaysOpen = made(8192);
libraryStaysOpen.free();

const at = (address: bigint, bytes: number) =>
  new Uint8Array(Deno.UnsafePointerView.getArrayBuffer(Deno.UnsafePointer.create(address)!, bytes));

Deno.test("what is written at one address is there at the other, and nothing of it is in /dev/shm", () => {
  const names = () =>
    [...Deno.readDirSync("/dev/shm")].map(({ name }) => name).filter((name) =>
      !/^(mpich_|sm_segment|vader)/.test(name)
    );
  const before = names();
  const own = made(1 << 20), there = mapSegment(own.claim)!;
  assert(there !== own.address);
  assertEquals(names(), before);
  at(own.address, 1 << 20)[1_000_000] = 42;
  assertEquals(at(there, 1 << 20)[1_000_000], 42);
  own.free();
  assertEquals(at(there, 1 << 20)[1_000_000], 42, "it lives as long as somebody has it");
});

Deno.test("who comes when it is sealed, or finds something else under that number, gets nothing", () => {
  const own = made(8192), other = made(8192);
  assertEquals(mapSegment({ ...own.claim, token: other.claim.token }), null);
  assertEquals(mapSegment({ ...own.claim, bytes: 1 << 20 }), null, "there is not as much of it");
  assertEquals(mapSegment({ ...own.claim, descriptor: 999_999 }), null);
  assertEquals(mapSegment({ ...own.claim, pid: 2 ** 22 + 1 }), null);
  own.seal();
  assertEquals(mapSegment(own.claim), null);
  other.free();
});

Deno.test("more than there is room for is refused with the reason, and nobody is killed", () => {
  assertMatch(String(makeSegment(2 ** 50)), /^this host has no \d+ bytes of memory left to share/);
});
