// Packing: the same bytes from any number of ranks and after any kill, and nothing written over what is there.
import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../../core/base/errors.ts";
import { writeShards } from "../../../../core/data/shards/write.ts";
import { inTemp } from "../../../integration/program.ts";
import { alone, contents, make, pack, plan } from "./make.ts";
import { assertSentence } from "../../../sentences.ts";

/** What a call is refused with. */
async function refusal(call: () => Promise<unknown>): Promise<string> {
  const error = await assertRejects(call, UserError);
  assertEquals(error.kind, "usage");
  assertMatch(error.message, /\.$/);
  return error.message;
}

Deno.test("one rank and four write the same bytes, and the last of them the index", () =>
  inTemp(async (folder) => {
    const one = join(folder, "one"), four = join(folder, "four");
    const report = await pack(one);
    assertEquals({ ...report, bytes: 0 }, { shards: 12, written: 12, kept: 0, bytes: 0, complete: true });
    for (const rank of [2, 0, 3, 1]) {
      const { complete, written } = await writeShards(plan(four), { rank, world: 4 }, make);
      assertEquals([written, complete], [3, rank === 1]);
    }
    assertEquals(contents(four), contents(one));
    const files = Object.entries(contents(one)).filter(([name]) => name.endsWith(".bin"));
    assertEquals(report.bytes, files.reduce((sum, [, hex]) => sum + hex.length / 2, 0));
    assertEquals(Object.keys(contents(one)).length, 13, "twelve shards and the index");
  }));

Deno.test("no shard has samples of both sets, and what is asked for at once changes no byte", () =>
  inTemp(async (folder) => {
    const asked: [number, number][] = [];
    await writeShards(plan(join(folder, "a"), { atOnce: 4 }), alone, (first, count, rows) => {
      asked.push([first, count]);
      return make(first, count, rows);
    });
    assertEquals(asked.slice(0, 4), [[0, 4], [4, 4], [8, 2], [10, 4]]);
    assertEquals(asked.slice(-5), [[90, 2], [92, 4], [96, 4], [100, 2], [102, 1]]);
    await pack(join(folder, "b"));
    assertEquals(contents(join(folder, "a")), contents(join(folder, "b")));
  }));

Deno.test("what is there already is kept, and what is damaged or missing is written again", () =>
  inTemp(async (folder) => {
    const whole = join(folder, "whole"), out = join(folder, "out");
    await pack(whole);
    // Ranks 0 and 1 of 3 have come to their end; then something happens to two of their shards.
    for (const rank of [0, 1]) await writeShards(plan(out), { rank, world: 3 }, make);
    const damaged = join(out, "shard-00000.bin");
    const bytes = Deno.readFileSync(damaged);
    bytes[100] ^= 1;
    Deno.writeFileSync(damaged, bytes);
    Deno.truncateSync(join(out, "shard-00001.bin"), 99);
    const seen: number[] = [];
    const report = await writeShards(plan(out), alone, make, ({ done, kept, total }) => {
      assertEquals(total, 103);
      seen.push(done, kept);
    });
    assertEquals([report.written, report.kept], [6, 6]);
    assertEquals(seen.slice(-2), [103, 52]);
    assertEquals(contents(out), contents(whole));
    assertEquals(await pack(out), { shards: 12, written: 0, kept: 12, bytes: report.bytes, complete: true });
    Deno.removeSync(join(out, "shard-00007.bin"));
    assertEquals((await pack(out)).written, 1);
    assertEquals(contents(out), contents(whole));
  }));

Deno.test("a folder of other data, of another plan or of somebody else's files is refused", () =>
  inTemp(async (folder) => {
    const out = join(folder, "out");
    await writeShards(plan(out), { rank: 0, world: 2 }, make);
    const before = contents(out);
    assertSentence(
      "core/data/shards/write: out holds other",
      await refusal(() => pack(out, { samples: 104 })),
    );
    assertMatch(await refusal(() => pack(out, { perShard: 11 })), /its samples per shard is 10, and now 11/);
    const changed = { kind: "test", hash: "abd", said: "numbers of a test" };
    assertMatch(
      await refusal(() => pack(out, { origin: changed })),
      /its files or settings have changed since/,
    );
    const other = { kind: "test", hash: "x", said: "stars" };
    assertMatch(
      await refusal(() => pack(out, { origin: other })),
      /comes from numbers of a test, and now from stars/,
    );
    assertEquals(contents(out), before);
    await pack(out);
    assertMatch(await refusal(() => pack(out, { samples: 104 })), /out holds other data/);
    Deno.mkdirSync(join(folder, "mine"));
    Deno.writeTextFileSync(join(folder, "mine", "thesis.tex"), "");
    assertMatch(
      await refusal(() => pack(join(folder, "mine"))),
      /mine is not empty \(thesis\.tex\): name a new folder/,
    );
    assertSentence(
      "core/data/shards/write: thesis tex written",
      await refusal(() => pack(join(folder, "mine", "thesis.tex"))),
    );
  }));

Deno.test("what the disk has no room for is refused before anything is written", () =>
  inTemp(async (folder) => {
    const huge = {
      samples: 1e9,
      perShard: 1e8,
      schema: { ...plan("").schema, input: { ...plan("").schema.input, shape: [1024, 1024] } },
    };
    const said = await refusal(() => pack(join(folder, "deep", "out"), huge));
    assertMatch(
      said,
      /Packing into \S+out takes 3\.\d PiB, and [\d.]+ [MGT]iB are free in \S+deep\/out\. Free some space/,
    );
    assertEquals(contents(folder), {});
  }));

const PROGRAM = new URL("./pack_program.ts", import.meta.url).pathname;
const start = (out: string, slow: number, rank = "0/1") =>
  new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", PROGRAM, out, String(slow), rank],
    stdout: "piped",
    stderr: "piped",
  }).spawn();

function kill(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGKILL");
  } catch {
    // It has just ended by itself.
  }
}

Deno.test("killed at any moment and started again, it comes to the same end", () =>
  inTemp(async (folder) => {
    const whole = join(folder, "whole"), out = join(folder, "out");
    await pack(whole);
    let killed = 0;
    for (let runs = 0, code = 1; code !== 0; runs++) {
      const child = start(out, 60);
      // It is killed while it makes samples, or a little later, while it writes them: how fast the machine is decides nothing.
      const reader = child.stdout.getReader();
      for (let at = 0; runs < 6 && at <= runs % 3; at++) await reader.read();
      await new Promise((done) => setTimeout(done, 12 * runs));
      if (runs < 6) kill(child);
      reader.releaseLock();
      const end = await child.output();
      code = end.code;
      if (end.signal === "SIGKILL") killed++;
      else assertEquals(code, 0, new TextDecoder().decode(end.stderr));
    }
    assertEquals(killed > 1, true, `killed ${killed} times`);
    assertEquals(contents(out), contents(whole));
  }));

Deno.test("two processes of one rank at one place: the second is refused, another rank is not", () =>
  inTemp(async (folder) => {
    const out = join(folder, "out");
    const first = start(out, 10_000);
    const reader = first.stdout.getReader();
    await reader.read(); // it has begun
    try {
      assertMatch(await refusal(() => pack(out)), /Another process is packing into \S+out\. Wait for it/);
      const { written, complete } = await writeShards(plan(out), { rank: 1, world: 2 }, make);
      assertEquals([written, complete], [6, false]);
    } finally {
      first.kill("SIGKILL");
      await reader.cancel();
      await first.status;
      await first.stderr.cancel();
    }
    assertEquals((await pack(out)).complete, true);
  }));
