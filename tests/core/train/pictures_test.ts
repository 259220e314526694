// Sample pictures show the data as it was: whatever a model is given, and whatever it says, colours are not stretched.
import { assertEquals, assertNotEquals } from "@std/assert";
import { inflateSync } from "node:zlib";
import { memorySource } from "../../../core/data/source/memory.ts";
import { viridis } from "../../../core/data/preview/picture.ts";
import type { Source } from "../../../core/data/source/source.ts";
import { block, model } from "../../../core/models/model.ts";
import { Linear } from "../../../core/models/nn/linear.ts";
import type { Pass } from "../../../core/train/blocks.ts";
import { openPictures } from "../../../core/train/media.ts";
import type { PicturesNote } from "../../../core/run/events.ts";
import { add, scalar, scale, sub, tensor } from "../../../ffi/make.ts";
import { toDtype } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { open } from "./rig.ts";

open();

const SIDE = 8, AREA = SIDE * SIDE;

/** Red, green and blue at a place of our own PNG: 8 bits a channel, rows that begin with their filter, which is none. */
function pixels(png: string): { width: number; at(x: number, y: number): number[] } {
  const bytes = Uint8Array.from(atob(png), (c) => c.charCodeAt(0)), view = new DataView(bytes.buffer);
  const width = view.getUint32(16), parts: Uint8Array[] = [];
  for (let at = 8; at < bytes.length;) {
    const size = view.getUint32(at);
    if (String.fromCharCode(...bytes.subarray(at + 4, at + 8)) === "IDAT") {
      parts.push(bytes.subarray(at + 8, at + 8 + size));
    }
    at += size + 12;
  }
  const rows = inflateSync(Uint8Array.from(parts.flatMap((part) => [...part])));
  const stride = 3 * width + 1;
  return {
    width,
    at(x, y) {
      assertEquals(rows[y * stride], 0, "a row without a filter");
      return [...rows.subarray(y * stride + 1 + 3 * x, y * stride + 4 + 3 * x)];
    },
  };
}

/** What is shown of each sample, by a model that says `says` of what it is given. */
function shown(source: Source, says: (x: Tensor) => Tensor): ReturnType<typeof pixels>[] {
  const made = model("made", new Linear(1, 1), [block("all", null, says)], { layers: "" });
  const notes: PicturesNote[] = [];
  const pass = { model: made, loss: { name: "mse" }, cast: null, onGpu: false } as unknown as Pass;
  openPictures(source, 2, (note) => notes.push(note))!(pass, 1);
  assertEquals(notes.length, 1, "pictures were made");
  return notes[0].pictures.map(({ png }) => pixels(png));
}

/** Two samples of one colour each, the second much darker; byte by byte. */
const COLOURS = [[200, 100, 50], [20, 10, 5]];
const planes = (colours: readonly number[][]) =>
  colours.flatMap((colour) => colour.flatMap((c) => Array(AREA).fill(c)));
const bytes = () => tensor(Uint8Array.from(planes(COLOURS)), [2, 3, SIDE, SIDE]);
const labelled = { task: "classification", outputs: 2, description: "" } as const;
const target = () => tensor(BigInt64Array.of(0n, 1n));
const scores = (x: Tensor) => tensor([1, 0, 0, 1], [x.shape[0], 2]);
const normalised = (x: Tensor) => scope(() => scale(sub(toDtype(x, "f32"), scalar(120)), 1 / 60));

Deno.test("images of bytes have their own colours after they were normalised for the model", () => {
  const source = memorySource({
    ...{ name: "images", ...labelled, input: bytes(), target: target() },
    finish: (raw) => ({ ...raw, input: normalised(raw.input) }),
  });
  assertEquals(shown(source, scores).map((picture) => picture.at(3, 3)), COLOURS);
});

for (const [held, factor] of [["0 to 1", 1 / 255], ["0 to 255", 1]] as const) {
  Deno.test(`images held as floats from ${held} have their own colours, and a dark one stays dark`, () => {
    const input = scale(toDtype(bytes(), "f32"), factor);
    const source = memorySource({
      ...{ name: "images", ...labelled, input, target: target() },
      finish: (raw) => ({ ...raw, input: normalised(raw.input) }),
    });
    assertEquals(shown(source, scores).map((picture) => picture.at(3, 3)), COLOURS);
  });
}

Deno.test("grey images of bytes are grey, not coloured from their darkest to their brightest", () => {
  const input = tensor(Uint8Array.from({ length: 2 * AREA }, (_, i) => 60 + i % 9), [2, 1, SIDE, SIDE]);
  const source = memorySource({
    ...{ name: "grey", ...labelled, input, target: target() },
    finish: (raw) => ({ ...raw, input: normalised(raw.input) }),
  });
  const [first] = shown(source, scores);
  assertEquals([first.at(0, 0), first.at(first.width - 1, 0)], [[60, 60, 60], [67, 67, 67]]);
});

const colourOf = (share: number): number[] => {
  const rgb = new Uint8Array(3);
  viridis(share, rgb, 0);
  return [...rgb];
};

/** A point of the input, the target, the prediction or the difference, with gaps of two points between them. */
function panelsOf(picture: ReturnType<typeof pixels>) {
  const times = picture.width / (4 * SIDE + 3 * 2);
  return (panel: number, x: number, y: number) => picture.at((panel * (SIDE + 2) + x) * times, y * times);
}

Deno.test("a predicted map has the colours of its target's values, and not of its own spread", () => {
  const ramp = Float32Array.from({ length: 2 * AREA }, (_, i) => i % AREA / (AREA - 1));
  const input = tensor(ramp, [2, 1, SIDE, SIDE]);
  const source = memorySource({
    name: "maps",
    task: "regression",
    outputs: 1,
    description: "",
    input,
    target: input,
  });
  const [one] = shown(source, (x) => add(scale(x, 0), scalar(0.25)));
  const point = panelsOf(one);
  assertEquals(point(2, 0, 0), colourOf(0.25));
  const right = point(3, SIDE - 1, SIDE - 1), wrong = point(3, 0, 0);
  assertEquals([right[2] > right[0], wrong[0] > wrong[2]], [true, true]); // 1 is predicted too low, 0 too high
});

Deno.test("missing points are grey in targets, predictions and differences", () => {
  const ramp = Float32Array.from({ length: 2 * AREA }, (_, i) => i % AREA / (AREA - 1));
  const holes = ramp.map((value, i) => i % AREA === 0 ? NaN : value);
  const facts = { name: "maps", task: "regression", outputs: 1, description: "" } as const;
  const [input, target] = [ramp, holes].map((values) => tensor(values, [2, 1, SIDE, SIDE]));
  const [one] = shown(memorySource({ ...facts, input, target, rows: Int32Array.of(0, 1) }), (x) => x);
  const point = panelsOf(one);
  const corners = [0, 1, 2, 3].map((panel) => point(panel, 0, 0));
  assertEquals(corners, [colourOf(0), ...Array(3).fill([128, 128, 128])]);
  assertEquals(point(3, SIDE - 1, SIDE - 1), [247, 247, 247]); // what is right is white
});

Deno.test("a class has one colour in labels and predictions, whichever classes are there", () => {
  const input = tensor(new Float32Array(2 * AREA).fill(0.5), [2, 1, SIDE, SIDE]);
  const labels = tensor(BigInt64Array.from({ length: 2 * AREA }, (_, i) => BigInt(i % 2)), [2, SIDE, SIDE]);
  const source = memorySource({
    ...{ name: "masks", task: "segmentation", outputs: 3, description: "", input, target: labels },
  });
  const all = (k: number) =>
    Float32Array.from({ length: 2 * 3 * AREA }, (_, i) => Math.floor(i / AREA) % 3 === k ? 1 : 0);
  for (const k of [0, 1, 2]) {
    const [one] = shown(source, () => tensor(all(k), [2, 3, SIDE, SIDE]));
    assertEquals(one.at(one.width - 2, 2), colourOf(k / 2));
  }
  assertNotEquals(colourOf(0), colourOf(0.5));
});
