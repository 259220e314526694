// NCCL's engine on a stand-in that checks how it is called: the order of calls, what streams wait for, how long buffers
// live. Ranks are processes.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { finish, type Result, ROOT } from "../../integration/program.ts";
import { buildDouble, COMPILER } from "../../native/double.ts";
import { assertSentence } from "../../sentences.ts";

interface Saw {
  version: string;
  against: string | null;
  saw: Record<string, unknown>;
  after: string;
  flown: {
    sequence: number;
    op: string;
    phase: string;
    bytes: number;
    queued: number;
    begun: number;
    ended: number;
  }[];
  times: { waited: number; busy: number };
}

/** `count`: processes that are started, of `world`. */
async function ranks(
  name: string,
  world: number,
  env: Record<string, string> = {},
  count = world,
): Promise<{ results: Result[]; saw: Saw[] }> {
  const folder = Deno.makeTempDirSync();
  try {
    buildDouble(folder);
    const results = await Promise.all(Array.from({ length: count }, (_, rank) => {
      const program = join(ROOT, "tests/core/ranks/nccl_program.ts");
      const child = new Deno.Command(Deno.execPath(), {
        args: ["run", "--quiet", "--allow-all", "--no-check", program, name, folder, `${rank}`, `${world}`],
        env: { OMP_NUM_THREADS: "1", NO_COLOR: "1", NCCL_DOUBLE_FOLDER: folder, ...env },
        stdin: "null",
        stdout: "piped",
        stderr: "piped",
      }).spawn();
      return finish(child, 60);
    }));
    const saw = results.every(({ code }) => code === 0) && name !== "aborts"
      ? results.map((_, rank) => JSON.parse(Deno.readTextFileSync(`${folder}/${rank}.json`)))
      : [];
    return { results, saw };
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

async function well(name: string, world: number, env?: Record<string, string>): Promise<Saw[]> {
  const { results, saw } = await ranks(name, world, env);
  for (const { code, stdout, stderr } of results) assertEquals(code, 0, stdout + stderr);
  return saw;
}

const test = (name: string, fn: () => Promise<void>) => Deno.test({ name, fn, ignore: COMPILER === null });

for (const world of [1, 2, 3]) {
  test(`${world} ranks on NCCL add, compare, hand out, gather and scatter, in their order`, async () => {
    const all = await well("verbs", world);
    for (const [rank, { version, saw, after, flown, times }] of all.entries()) {
      assertEquals(version, "NCCL 2.30.7");
      const third = 3 * world + world * (world - 1) / 2;
      assertEquals(saw.types, Array(5).fill([world, 2 * world, third]));
      const last = world - 1, triangle = world * (world - 1) / 2;
      const gathered = Array.from({ length: world }, (_, r) => [r, r + 0.5]).flat();
      const scattered = [0, 1].map((i) => world * (2 * rank + i) + triangle);
      const numbers = [[last, 0], [0, -last || 0], [last + 10, last + 20], gathered, scattered];
      assertEquals((saw.numbers as number[][]).map((row) => row.map((n) => n || 0)), numbers);
      assertEquals(saw.tickets, [6, 7, 8, 9, 10, 11, 12]);
      assert((saw.early as boolean[]).every(Boolean), "what was queued before is done before");
      assertEquals(saw.large, [world, world]);
      assertEquals(
        saw.heard,
        world === 1 ? ["rank 0"] : Array.from({ length: world }, (_, r) => `rank ${r}`),
      );
      assertEquals(flown[8].op, "all-gather");
      assertEquals(flown[8].phase, "everybody's");
      assertEquals(flown[8].bytes, 16);
      assert(flown.every(({ queued, begun, ended }) => queued > 1e12 && begun >= queued && ended >= queued));
      assert(times.busy > 0);
      assertStringIncludes(after, "after communication was closed");
    }
  });
}

test("more collectives may be under way than NCCL's engine has places for", async () => {
  for (const { saw } of await well("queued", 2)) {
    assertEquals(saw.sums, Array.from({ length: 600 }, (_, i) => [2 * i, 1]));
  }
});

test("what is computed goes on while ranks communicate, and waits where it needs the result", async () => {
  for (const { saw, times } of await well("slow", 2, { NCCL_DOUBLE_DELAY: "300" })) {
    assertEquals(saw.before, false);
    assertEquals(saw.after, true);
    assertEquals(saw.sum, [3]);
    assert((saw.queued as number) < 250, `queued in ${saw.queued} ms`);
    // The wait is that of the stream, measured there; being busy is what the collective took.
    assert(times.waited > 0.15 && times.waited < 2, `${times.waited} s waited`);
    assert(times.busy > 0.28 && times.busy < 2, `${times.busy} s busy`);
  }
});

test("training on 2 ranks keeps what NCCL is still to use as it is, and has the bits of one with twice the gradient", async () => {
  for (const { saw } of await well("training", 2)) {
    assert((saw.cases as number) > 3);
    assert(saw.same);
  }
});

test("ranks that do different things are told so, with what each did", async () => {
  const { results } = await ranks("differ", 2);
  for (const { code, stderr } of results) {
    assertEquals(code, 5, stderr);
    assertMatch(
      stderr,
      /Communication between ranks failed in (all-reduce|broadcast) 1 \((gradients|weights)\): invalid usage: rank 0: allreduce of 2 .* rank 1: broadcast of 8 /,
    );
  }
});

test("a tensor that is written to before its collective has ended is noticed by the double", async () => {
  const { results } = await ranks("careless", 2, { NCCL_DOUBLE_DELAY: "100" });
  for (const { code, stderr } of results) {
    assertEquals(code, 5, stderr);
    assertSentence("core/ranks/nccl: buffer allreduce changed", stderr);
  }
});

test("an error of NCCL's on one rank ends its wait, in NCCL's words", async () => {
  const env = { NCCL_DOUBLE_FAIL: "allreduce:3" };
  const { results } = await ranks("third", 2, env);
  for (const { code, stderr } of results) {
    assertEquals(code, 5, stderr);
    assertSentence("core/ranks/nccl: hpctrain communication between", stderr);
  }
});

test("an abort ends a collective that would never end, and is what every later call says", async () => {
  const { results: [first, second] } = await ranks("aborts", 2, { NCCL_DOUBLE_HANG: "allreduce:2" });
  assertEquals(second.code, 0, second.stderr);
  assertEquals(first.code, 5, first.stderr);
  assertStringIncludes(first.stderr, "hpctrain: Rank 1 was lost.");
});

test("a rank that never comes to NCCL is not waited for for ever", async () => {
  const { results: [{ code, stderr }] } = await ranks("absent", 2, {}, 1);
  assertEquals(code, 5, stderr);
  assertSentence("core/ranks/nccl: rank waited others", stderr);
});
