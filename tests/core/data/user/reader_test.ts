// A user's data, read by loader threads: each imports the file anew, and the batches are those of the main thread.
import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { join } from "paths";
import { address } from "../../../../commands/user_reader.ts";
import { resolveSettings } from "../../../../core/settings/resolve.ts";
import { openLoader } from "../../../../core/data/loader/loader.ts";
import { type Part, plainPart, type Source } from "../../../../core/data/source/source.ts";
import { transformed } from "../../../../core/data/transforms/apply.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { userData } from "../../../../core/data/user/data.ts";
import { openUserFile } from "../../../../core/models/user/file.ts";
import * as library from "../../../../mod.ts";
import { inTemp } from "../../../integration/program.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

useLibtorch();
const { scope, toNumbers } = library;
const { config } = resolveSettings({ argv: [], env: {} });

interface Asked {
  readonly data?: Partial<typeof config.data>;
  /** Whether what the settings ask to be done to samples is put on. */
  readonly plain?: boolean;
}

/** The training samples of a file with this text. */
function inThreads(
  text: string,
  { data = {}, plain = true }: Asked,
  body: (source: Source, path: string) => void,
): Promise<void> {
  return inTemp(async (folder) => {
    const path = join(folder, "own.ts");
    Deno.writeTextFileSync(path, text);
    const settings = { ...config.data, ...data };
    const file = { ...await openUserFile(path, "data", { ...library }, "LIKE THIS."), reader: address };
    const pair = userData(file, settings, 7);
    body(plain ? pair.train : transformed(pair, { data: settings, seed: 7 }).train, path);
  });
}

/** All parts' rows, as numbers; by the main thread for 0 threads. */
function readAll(source: Source, parts: readonly Part[], threads: number): number[][] {
  const numbers = (b: { input: library.Tensor; target: library.Tensor }) => [
    ...toNumbers(b.input),
    ...toNumbers(b.target),
  ];
  if (threads === 0) return parts.map((part) => scope(() => numbers(source.raw(part))));
  const loader = openLoader([{ source, rows: 8, held: 1 }], threads, 1 << 20, false);
  try {
    const [rows] = loader.lanes;
    let at = 0;
    rows.begin(() => parts[at++] ?? null);
    return parts.map((part) => {
      while (!rows.ready(0, 100));
      const seen = scope(() => numbers(rows.take(part)));
      rows.release(1);
      return seen;
    });
  } finally {
    loader.close();
  }
}

const PARTS = [
  plainPart([3, 1, 40, 5, 9, 2, 11, 8]),
  plainPart([0, 7, 6, 39], 1),
  plainPart([12, 13, 14, 15, 16, 17, 18], 1),
];

/** `batch` is the body of a function of (ids, epoch). */
const reading = (batch: string, shape = "[ids.length, 4]") =>
  `let calls = 0;
export default ({ tensor, ops, seed }) => {
  const samples = { length: 41, batch(ids: readonly number[], epoch: number) {
    ${batch}
    const input = tensor(Float32Array.from(ids.flatMap((i) => [0, 1, 2, 3].map((k) => i + k / 8 + epoch + seed))), ${shape});
    return { input, target: ops.exp(tensor(Float32Array.from(ids), [ids.length, 1])) };
  } };
  return { task: "regression", outputs: 1, train: samples };
};`;

Deno.test("a user's samples are the same to the last bit in the same order, read by 0, 1 and 4 threads", () =>
  inThreads(reading(""), {}, (source) => {
    const [none, one, four] = [0, 1, 4].map((threads) => readAll(source, PARTS, threads));
    assertEquals(none[1].slice(0, 5), [8, 8.125, 8.25, 8.375, 15]);
    assertEquals(one, none);
    assertEquals(four, none);
  }));

Deno.test("a file is imported anew in each thread, and asked for the parts that the main thread would ask for", () =>
  inThreads(
    // Thread after thread counts its own calls; the main thread's count has begun with sample 0.
    reading("calls++; if (ids.length === 8) throw new Error(`call ${calls} for ${ids}`);"),
    {},
    (source) => {
      const said = (threads: number) =>
        assertThrows(() => readAll(source, PARTS, threads), UserError).message;
      assertMatch(said(0), /own\.ts:4:\d+: call \d+ for 3,1,40,5,9,2,11,8\.$/);
      assertMatch(said(1), /own\.ts:4:\d+: call 1 for 3,1,40,5,9,2,11,8\.$/);
    },
  ));

Deno.test("cropping, turning and replaced samples are the same whoever reads", () =>
  inThreads(
    reading("", "[ids.length, 1, 2, 2]").replace("i + k / 8", "(i === 40 ? NaN : i) + k / 8"),
    { data: { rotate: true, flip: "both", bad_samples: "skip", normalise: "none" }, plain: false },
    (source) => {
      const [none, two] = [0, 2].map((threads) => readAll(source, PARTS, threads));
      assertEquals(two, none);
      assertEquals(readAll(source, [plainPart([5])], 0)[0].slice(0, 4), none[0].slice(12, 16)); // by its id
      assert(none.flat().every(Number.isFinite));
      const sorted = none.map((values, p) => values.slice(0, 4 * PARTS[p].ids.length).sort((a, b) => a - b));
      const stored = [0, 1, 2, 3, 5, 8, 9, 11].flatMap((i) => [0, 1, 2, 3].map((k) => i + k / 8 + 7));
      assertEquals(sorted[0], stored); // sample 0 is in the place of sample 40
      assertNotEquals(none[0].slice(0, 32), [...none[0].slice(0, 32)].sort((a, b) => a - b));
    },
  ));

Deno.test("a sample that is not finite is named", () =>
  inThreads(reading("").replace("i + k / 8", "(i === 40 ? 1 / 0 : i) + k / 8"), {}, (source, path) => {
    for (const threads of [0, 2]) {
      const { message } = assertThrows(() => readAll(source, PARTS, threads), UserError);
      assertStringIncludes(message, `Sample 40 (${path}) has NaN or infinity at value 0.`);
      assertStringIncludes(message, "--bad-samples skip");
    }
  }));

const MISTAKES: readonly (readonly [string, string, string])[] = [
  ["rows of another shape", "", sentenceNamed("core/data/user/reader: rows samples must")],
  ["random numbers of libtorch's", "if (epoch === 1) ops.randn([2]);", "ops.randn draws from the generator"],
];
for (const [what, batch, said] of MISTAKES) {
  Deno.test(`a thread that meets ${what} says so`, () =>
    inThreads(
      reading(batch, batch === "" ? "ids.length === 1 ? [1, 4] : [ids.length, 2, 2]" : undefined),
      {},
      (source) => {
        assertStringIncludes(assertThrows(() => readAll(source, PARTS, 1), UserError).message, said);
      },
    ));
}

Deno.test("a file that changes before a thread opens it is refused, and so are samples that are others every time", async () => {
  await inThreads(reading(""), {}, (source, path) => {
    Deno.writeTextFileSync(path, reading("// another"));
    const { message } = assertThrows(() => readAll(source, PARTS, 1), UserError);
    assertSentence("core/data/user/reader: changed while being", message, { path });
  });
  await inThreads(
    reading("").replace("length: 41", "length: performance.now() * 1000 | 0 || 1"),
    {},
    (source) => {
      const { message } = assertThrows(() => readAll(source, [plainPart([0])], 1), UserError);
      assertSentence("core/data/user/reader: function gives must", message);
    },
  );
});
