import { assert, assertEquals } from "@std/assert";
import {
  EVENT,
  newSharedRing,
  NOTE,
  openPuller,
  openPusher,
  STEP_NUMBERS,
  stepIn,
} from "../../../../core/run/writer/ring.ts";

const decoder = new TextDecoder();

/** All that is there, as text. */
function read(puller: ReturnType<typeof openPuller>): [number, string][] {
  const found: [number, string][] = [];
  puller.drain((kind, bytes) => found.push([kind, decoder.decode(bytes.slice())]));
  return found;
}

Deno.test("records come out as they went in, in order, however often the memory's end is passed", () => {
  const shared = newSharedRing(1024);
  const pusher = openPusher(shared), puller = openPuller(shared);
  let number = 0, heard = 0;
  for (let round = 0; round < 500; round++) {
    const sent: [number, string][] = [];
    for (let i = 0; i <= round % 3; i++, number++) {
      const text = `${number} ${"é日".repeat(number % 17)}`;
      if (pusher.push(number % 2 ? EVENT : NOTE, text, true)) sent.push([number % 2 ? EVENT : NOTE, text]);
    }
    assertEquals(read(puller), sent);
    heard += sent.length;
  }
  assert(heard > 900, `${heard} of ${number}: most had room`);
});

Deno.test("without a reader there is an end to what is taken, and what is urgent has room for longer", () => {
  const shared = newSharedRing(4096);
  const pusher = openPusher(shared);
  const line = "x".repeat(60);
  let samples = 0, urgent = 0;
  while (pusher.push(EVENT, line, false)) samples++;
  while (pusher.push(EVENT, line, true)) urgent++;
  assert(samples > 30 && urgent > 8, `${samples} samples, then ${urgent} urgent ones`);
  assertEquals(pusher.push(EVENT, line, true), false);
  const puller = openPuller(shared);
  assertEquals(read(puller), new Array(samples + urgent).fill([EVENT, line]));
  assert(pusher.push(EVENT, line, false), "there is room again");
});

Deno.test("words come out between texts in order, past the memory's end too, and are no more urgent than samples", () => {
  const shared = newSharedRing(1024);
  const pusher = openPusher(shared), puller = openPuller(shared);
  const found: unknown[] = [];
  const take = (kind: number, bytes: Uint8Array) =>
    found.push(
      kind === STEP_NUMBERS ? [...new Int32Array(bytes.slice().buffer)] : decoder.decode(bytes.slice()),
    );
  for (let i = 0; i < 100; i++) {
    const words = Int32Array.from({ length: 22 }, (_, k) => i * k);
    assert(pusher.push(EVENT, "x".repeat(i % 9), false));
    assert(pusher.pushWords(STEP_NUMBERS, words));
    puller.drain(take);
    assertEquals(found.splice(0), ["x".repeat(i % 9), [...words]]);
  }
  const words = new Int32Array(22);
  while (pusher.pushWords(STEP_NUMBERS, words));
  assert(pusher.push(EVENT, "z", true), "a quarter is left to what is urgent");
});

Deno.test("what is larger than the memory is refused, and nothing is harmed", () => {
  const shared = newSharedRing(1024);
  const pusher = openPusher(shared), puller = openPuller(shared);
  assertEquals(pusher.push(EVENT, "y".repeat(2000), true), false);
  assert(pusher.push(EVENT, "z", true));
  assertEquals(read(puller), [[EVENT, "z"]]);
});

Deno.test("positions go on beyond 2^31 bytes", () => {
  const shared = newSharedRing(1024);
  const words = new Int32Array(shared.words);
  words[0] = words[1] = 2 ** 31 - 512; // as after two gigabytes
  const pusher = openPusher(shared), puller = openPuller(shared);
  for (let i = 0; i < 100; i++) {
    assert(pusher.push(EVENT, `record ${i} of some length`, false));
    assertEquals(read(puller), [[EVENT, `record ${i} of some length`]]);
  }
  assert(words[0] < 0, "it has wrapped around");
});

Deno.test("the end is there when it was asked for and everything is read; the step and losses go across", () => {
  const shared = newSharedRing(1024);
  const pusher = openPusher(shared), puller = openPuller(shared);
  pusher.push(EVENT, "last", false);
  pusher.end();
  assertEquals(puller.ended(), false);
  read(puller);
  assert(puller.ended());
  pusher.at(77);
  puller.lose(3);
  assertEquals([stepIn(shared), pusher.lost], [77, 3]);
});
