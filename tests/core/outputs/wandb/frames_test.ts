// Blocks, pieces and checksums of a .wandb file.
import { assertEquals } from "@std/assert";
import {
  encodeFrame,
  type FrameEnd,
  HEADER,
  readAtOf,
  readFrames,
  type ReadOptions,
  type WandbFrame,
} from "../../../../core/outputs/wandb/file.ts";
import { readAtOfBytes } from "./runs.ts";

function file(records: readonly Uint8Array[]): Uint8Array {
  const parts: Uint8Array[] = [HEADER];
  let at = HEADER.length;
  for (const record of records) {
    parts.push(encodeFrame(record, at).slice());
    at += parts.at(-1)!.length;
  }
  const whole = new Uint8Array(at);
  at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function read(bytes: Uint8Array, options?: ReadOptions): { frames: WandbFrame[]; end: FrameEnd } {
  const frames: WandbFrame[] = [];
  const reading = readFrames(readAtOfBytes(bytes), options);
  for (;;) {
    const next = reading.next();
    if (next.done) return { frames, end: next.value };
    frames.push(next.value);
  }
}

const filled = (length: number, value = 7) => new Uint8Array(length).fill(value);
const lengths = (frames: readonly WandbFrame[]) => frames.map(({ record }) => record.length);

Deno.test("records of every length around a block's end come back, wherever they begin", () => {
  for (let before = 32700; before < 32768; before++) {
    for (const length of [0, 1, 40, 32768, 70000]) {
      const records = [filled(before - 14, 1), filled(length, 2), filled(5, 3)];
      const { frames, end } = read(file(records));
      assertEquals(frames.map(({ record }) => record), records);
      assertEquals(end.damage, null);
    }
  }
});

Deno.test("the bytes are those that W&B's own writer makes", () => {
  const record = [0x08, 0x04, 0x92, 0x01, 0x02, 0x10, 0x01, 0xc2, 0x0c, 0x04, 0x0a, 0x02, 0x72, 0x31];
  const hex = Array.from(
    encodeFrame(Uint8Array.from(record), 145),
    (byte) => byte.toString(16).padStart(2, "0"),
  );
  assertEquals(hex.join(""), "633a13410e000108049201021001c20c040a027231");
});

Deno.test("of a file that is cut at any place, the whole records before are read, and where they end", () => {
  const records = [filled(30, 1), filled(33000, 2), filled(10, 3)];
  const whole = file(records);
  const ends = read(whole).frames.map(({ end }) => end);
  for (let cut = 0; cut < whole.length; cut += cut < 200 || cut > whole.length - 100 ? 1 : 97) {
    const { frames, end } = read(whole.subarray(0, cut));
    const expected = ends.filter((end) => end <= cut);
    assertEquals(frames.map(({ end }) => end), expected, `cut at ${cut}`);
    const clean = cut === HEADER.length || expected.at(-1) === cut;
    assertEquals(end.damage?.kind, clean ? undefined : "cut", `cut at ${cut}`);
    if (cut >= HEADER.length) assertEquals(end.end, expected.at(-1) ?? HEADER.length);
  }
});

Deno.test("a bit flipped anywhere is seen: only records before it are read, or with resync also those after its block", () => {
  const records = [filled(100, 1), filled(100, 2), filled(40000, 3), filled(100, 4)];
  const whole = file(records);
  const ends = read(whole).frames.map(({ end }) => end);
  for (let at = HEADER.length; at < whole.length; at += at < 400 ? 1 : 101) {
    const bytes = whole.slice();
    bytes[at] ^= 4;
    const { frames, end } = read(bytes);
    const expected = ends.filter((end) => end <= at).length;
    assertEquals(frames.length, expected, `flipped at ${at}`);
    assertEquals(end.damage === null, false, `flipped at ${at}`);
    const told: number[] = [];
    const after = read(bytes, { resync: (damage) => told.push(damage.at) }).frames;
    for (const { record } of after) assertEquals(records.some((r) => r.length === record.length), true);
    if (at < ends[1]) assertEquals(lengths(after).at(-1), 100, `flipped at ${at}`); // the last lies in a later block
  }
});

Deno.test("zeros behind the last record are room, and zeros within are damage", () => {
  const whole = file([filled(10), filled(20)]);
  const padded = new Uint8Array(70000);
  padded.set(whole);
  assertEquals(lengths(read(padded).frames), [10, 20]);
  assertEquals(read(padded).end, { end: whole.length, damage: null });
  const hollow = whole.slice();
  hollow.fill(0, 7, 24);
  assertEquals(read(hollow).end.damage?.kind, "damaged");
});

Deno.test("another file is refused, and a growing one is read on from where it ended", () => {
  assertEquals(read(filled(100)).end.damage?.why, "it is not a .wandb file");
  assertEquals(read(new Uint8Array(0)).end.damage?.kind, "cut");
  const first = file([filled(10), filled(20)]), more = file([filled(10), filled(20), filled(30)]);
  const { end } = read(first).end;
  assertEquals(lengths(read(more, { from: end }).frames), [30]);
});

Deno.test("a file is read as its bytes are", () => {
  const path = Deno.makeTempFileSync();
  const bytes = file([filled(10), filled(50000)]);
  Deno.writeFileSync(path, bytes);
  {
    using open = Deno.openSync(path);
    assertEquals([...readFrames(readAtOf(open))], read(bytes).frames);
  }
  Deno.removeSync(path);
});
