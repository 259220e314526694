import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { openLoader } from "../../../../core/data/loader/loader.ts";
import { order, partsOf } from "../../../../core/data/source/order.ts";
import { loadReader } from "../../../../core/data/source/reader.ts";
import { type Part, plainPart, type Source, threadedSource } from "../../../../core/data/source/source.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { liveTensors, scope } from "../../../../ffi/tensor.ts";
import { open } from "../../train/rig.ts";
import { made, type MadeSpec } from "./made_reader.ts";
import { assertRefusal } from "../../../sentences.ts";

open();
await loadReader(made());

const LENGTH = 203;

const sourceOf = (
  more: Partial<MadeSpec> = {},
  bad: "fail" | "skip" = "fail",
  indices: Int32Array | null = null,
) =>
  threadedSource({
    name: "made",
    length: indices?.length ?? LENGTH,
    indices,
    reader: made(more),
    stored: { name: "numbers", shape: [4], dtype: "f32" },
    target: { name: "class", shape: [], dtype: "i64" },
    bad,
    task: "classification",
    outputs: 10,
    description: "made",
  });

/** All parts of an epoch, as the loop would ask for them. */
function epochOf(source: Source, global: number, micro: number, epoch = 0): Part[] {
  const samples = order(source.length, 7, epoch, true);
  return Array.from(
    { length: Math.ceil(source.length / global) },
    (_, step) => partsOf(samples, step, { global, micro }, epoch, false),
  ).flat();
}

const inTurn = (parts: Part[]) => {
  let at = 0;
  return () => parts[at++] ?? null;
};

interface Way {
  threads: number;
  prefetch: number;
}

/** The first number of each sample, in the order in which batches came. */
function readAll(source: Source, parts: Part[], { threads, prefetch }: Way): number[] {
  const loader = openLoader([{ source, rows: 16, held: 2 }], threads, prefetch, false);
  const [rows] = loader.lanes;
  try {
    rows.begin(inTurn(parts));
    return parts.flatMap((part, i) => {
      const seen = scope(() => {
        while (!rows.ready(0, 100));
        const { input, target } = rows.take(part);
        const [numbers, classes] = [toNumbers(input), toNumbers(target)];
        const first = [...part.ids].map((_, row) => numbers[row * 4]);
        assertEquals([...classes], first.map((index) => index % 10));
        return first;
      });
      if (i % 2 === 1) rows.release(2);
      return seen;
    });
  } finally {
    loader.close();
  }
}

const straight = (source: Source, parts: Part[]) =>
  parts.flatMap((part) => scope(() => [...toNumbers(source.raw(part).input)].filter((_, i) => i % 4 === 0)));

Deno.test("batches are the same, in the same order, with any number of threads and any prefetch", () => {
  const source = sourceOf({ slow: 1 });
  const parts = epochOf(source, 32, 16);
  const wanted = straight(source, parts);
  assertEquals(wanted, parts.flatMap((part) => [...part.ids]));
  assertEquals([...wanted].sort((a, b) => a - b), Array.from({ length: LENGTH }, (_, i) => i));
  for (const threads of [1, 2, 4]) {
    for (const prefetch of [1, 10_000, 1e9]) {
      assertEquals(readAll(source, parts, { threads, prefetch }), wanted, `${threads} threads, ${prefetch}`);
    }
  }
});

Deno.test("a sample that can't be read ends the loading with its index, file and reason", () => {
  const source = sourceOf({ bad: [150] });
  const parts = epochOf(source, 32, 16);
  const wanted = /^Sample 150 \(file-150\) is cut off after 10 of 16 bytes\. .*--bad-samples skip\.$/;
  const inThreads = assertThrows(() => readAll(source, parts, { threads: 2, prefetch: 1e6 }), UserError);
  assertMatch(inThreads.message, wanted);
  assertEquals(inThreads.kind, "data");
  const here = assertThrows(() => straight(source, parts), UserError);
  assertEquals(here.message, inThreads.message);
});

Deno.test("bad samples are replaced by those after them where that is asked for, by any number of threads", () => {
  const source = sourceOf({ bad: [3, 4, 202] }, "skip");
  const parts = epochOf(source, 32, 16);
  const replaced = parts.flatMap((part) => [...part.ids]).map((id) =>
    id === 3 || id === 4 ? 5 : id === 202 ? 0 : id
  );
  assertEquals(straight(source, parts), replaced);
  for (const threads of [1, 3]) {
    assertEquals(readAll(source, parts, { threads, prefetch: 1e6 }), replaced);
  }
});

Deno.test("samples passed over are counted", () => {
  const source = sourceOf({ bad: [3, 4, 202] }, "skip");
  const parts = epochOf(source, 203, 16);
  const loader = openLoader([{ source, rows: 16, held: 1 }], 2, 1e6, false);
  try {
    loader.lanes[0].begin(inTurn(parts));
    for (const part of parts) {
      scope(() => loader.lanes[0].take(part));
      loader.lanes[0].release(1);
    }
    assertEquals(loader.skipped(), 4); // 3 -> 4 -> 5, 4 -> 5, 202 -> 0
  } finally {
    loader.close();
  }
});

Deno.test("data of which nothing can be read ends the loading, also where bad samples are skipped", () => {
  const source = () => sourceOf({ bad: Array.from({ length: LENGTH }, (_, i) => i) }, "skip");
  assertRefusal("data", "core/data/loader/loader: samples row used", assertThrows(source, UserError));
});

Deno.test("a mistake in the program is told as one, with what the thread said", () => {
  const source = sourceOf({ broken: 60 });
  const error = assertThrows(() => readAll(source, epochOf(source, 32, 16), { threads: 2, prefetch: 1e6 }));
  assertMatch((error as Error).message, /^internal: loader thread \d: TypeError: x is not a function/);
});

Deno.test("indices choose the samples of a source, whichever thread reads them", () => {
  const source = sourceOf({}, "fail", Int32Array.of(100, 7, 53, 8, 9));
  const parts = [plainPart([0, 1, 2]), plainPart([4, 3])];
  assertEquals(readAll(source, parts, { threads: 2, prefetch: 1e6 }), [100, 7, 53, 9, 8]);
});

Deno.test("what is begun anew forgets what was read for nobody, and two sources share the threads", () => {
  const [train, val] = [sourceOf({ slow: 1 }), sourceOf()];
  const loader = openLoader([train, val].map((source) => ({ source, rows: 16, held: 1 })), 2, 1e5, false);
  const before = liveTensors();
  try {
    const [a, b] = loader.lanes;
    const first = (rows: typeof a, part: Part) => scope(() => toNumbers(rows.take(part).input)[0]);
    for (let round = 0; round < 20; round++) {
      const parts = epochOf(train, 32, 16, round);
      a.begin(inTurn(parts));
      b.begin(inTurn([plainPart([round])]));
      assertEquals(first(b, plainPart([round])), round);
      for (const part of parts.slice(0, round % 4)) {
        assertEquals(first(a, part), part.ids[0]);
        a.release(1);
      }
    }
    assertEquals(liveTensors(), before);
  } finally {
    loader.close();
  }
  assert(liveTensors() < before, "the buffers are freed with the loader");
});

Deno.test("samples that share a chunk are read together as far as they are in sight, and come in the order asked for", () => {
  const unpacked = new Int32Array(new SharedArrayBuffer(4));
  const chunk = 10, chunks = Math.ceil(LENGTH / chunk);
  const source = sourceOf({ chunk, unpacked, slow: 0.2 });
  const parts = epochOf(source, 32, 16);
  const wanted = parts.flatMap((part) => [...part.ids]);
  for (const threads of [1, 3]) {
    unpacked[0] = 0;
    assertEquals(readAll(source, parts, { threads, prefetch: 1e6 }), wanted, `${threads} threads`);
    // All parts are in sight: the first row of a pipeline that is just opened knows of no chunks yet.
    assert(unpacked[0] <= chunks + 16 * threads, `${unpacked[0]} times by ${threads} threads`);
    assertEquals(
      readAll(source, parts, { threads, prefetch: 1 }),
      wanted,
      `${threads} threads, little in sight`,
    );
  }
});

Deno.test("chunks that are read for nobody are forgotten with what was begun, and no row is lost or done twice", () => {
  const unpacked = new Int32Array(new SharedArrayBuffer(4));
  const source = sourceOf({ chunk: 10, unpacked, slow: 0.1 });
  const loader = openLoader([{ source, rows: 16, held: 1 }], 3, 1e6, false);
  try {
    const [rows] = loader.lanes;
    for (let round = 0; round < 40; round++) {
      const parts = epochOf(source, 32, 16, round);
      rows.begin(inTurn(parts));
      for (const part of parts.slice(0, round % 5 === 4 ? parts.length : round % 5)) {
        const found = scope(() => toNumbers(rows.take(part).input).filter((_, i) => i % 4 === 0));
        assertEquals([...found], [...part.ids]);
        rows.release(1);
      }
    }
  } finally {
    loader.close();
  }
});
