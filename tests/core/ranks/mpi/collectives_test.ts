// Ranks that communicate by real MPI libraries, started by their own launchers.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { inTemp, type Result, until } from "../../../integration/program.ts";
import { mpich, type MpiUnderTest, openMpi, runRanks, standardMpi, startRanks } from "../../../mpi.ts";
import { within } from "../../../cpu_time.ts";
import { assertSentence } from "../../../sentences.ts";

const PROGRAM = "tests/core/ranks/mpi/program.ts";

interface Contender {
  readonly name: string;
  readonly open: () => MpiUnderTest;
  readonly env?: (mpi: MpiUnderTest) => Record<string, string>;
}

const FAMILIES: readonly Contender[] = [{ name: "Open MPI", open: openMpi }, { name: "MPICH", open: mpich }];
/** The interface that MPI 5 fixes for all: where MPICH has both, it has to be named. */
const ALL: readonly Contender[] = [
  ...FAMILIES,
  { name: "the standard interface", open: standardMpi, env: ({ library }) => ({ HPCTRAIN_MPI: library }) },
];

/** What a rank saw, by the case. */
interface Saw {
  said: string;
  saw: {
    verbs: {
      types: number[][];
      tickets: number[];
      early: boolean[];
      numbers: number[][];
      flown: { sequence: number; op: string; phase: string; bytes: number; queued: number; ended: number }[];
      times: { waited: number; busy: number };
    };
    split: number[];
    shared: Shared;
    queued: { done: boolean; first: number; last: number; sums: number[][] };
  };
}

interface Shared {
  there: boolean;
  seen: number[][][];
  part: number[] | null;
  small: number[];
  computed: number;
}

function checkShared({ there, seen, part, small }: Shared, world: number): void {
  const more = world * (world - 1) / 2;
  const sums = (places: number[], round: number) => places.map((i) => round * (world * (i % 1000) + more));
  const expected = [1, 2].map((round) => {
    const all = sums([0, 50_001, 100_002], round);
    return [all, all];
  });
  // Without shared memory it is one tensor, added up once more.
  const again = expected.map(([all]) => [all, all.map((sum) => world * sum)]);
  assertEquals(seen, there ? expected : again);
  assertEquals(part, there ? [world - 1, world - 1, world - 1] : null);
  assertEquals(small, [0, 1 - world]);
}

/** The cases of so many ranks, each in the same processes. The first counts its tickets from the beginning. */
const CASES: Readonly<Record<number, string>> = { 2: "verbs,shared,queued", 3: "shared,split", 4: "verbs" };
const started = new Map<string, Promise<Saw[]>>();

function saw({ name, open, env = () => ({}) }: Contender, world: number): Promise<Saw[]> {
  const key = `${world} on ${name}`, mpi = open();
  const all = started.get(key) ?? ranks(mpi, world, CASES[world], env(mpi));
  started.set(key, all);
  return all;
}

async function ranks(
  mpi: MpiUnderTest,
  n: number,
  name: string,
  env?: Record<string, string>,
): Promise<Saw[]> {
  const all: Saw[] = [];
  await inTemp(async (folder) => {
    const result = await runRanks(mpi, { ranks: n, program: [PROGRAM, name, folder], env });
    assertEquals(result.code, 0, result.stdout + result.stderr);
    for (let rank = 0; rank < n; rank++) {
      all.push(JSON.parse(Deno.readTextFileSync(`${folder}/${rank}.json`)));
    }
  });
  return all;
}

async function fails(mpi: MpiUnderTest, name: string, env?: Record<string, string>): Promise<Result> {
  let result: Result;
  await inTemp(async (folder) => {
    result = await runRanks(mpi, { ranks: 2, program: [PROGRAM, name, folder], env }, 30);
  });
  return result!;
}

for (const contender of ALL) {
  const { name, open } = contender;
  for (const world of [2, 4]) {
    Deno.test(`${world} ranks on ${name} add, compare, hand out, gather and scatter, in their order`, async () => {
      for (const [rank, { said, saw: { verbs } }] of (await saw(contender, world)).entries()) {
        assertStringIncludes(said, open().library);
        const third = 3 * world + world * (world - 1) / 2;
        assertEquals(verbs.types, Array(5).fill([world, 2 * world, third]));
        const last = world - 1, triangle = world * (world - 1) / 2;
        const gathered = Array.from({ length: world }, (_, r) => [r, r + 0.5]).flat();
        const scattered = [0, 1].map((i) => world * (2 * rank + i) + triangle);
        assertEquals(verbs.numbers, [[last, 0], [0, -last], [last + 10, last + 20], gathered, scattered]);
        assertEquals(verbs.tickets, [6, 7, 8, 9, 10, 11]);
        assert(verbs.early.every(Boolean), "what was queued before is done before");
        assertEquals(verbs.flown.length, 11);
        assertEquals(verbs.flown[8].op, "all-gather");
        assertEquals(verbs.flown[8].phase, "everybody's");
        assert(verbs.flown.every(({ queued, ended }) => ended >= queued && queued > 1e12));
        assert(verbs.times.busy > 0 && verbs.times.waited >= 0); // 0 where all was done before it was asked for
      }
    });
  }

  Deno.test(`3 ranks on ${name} add up in parts, in other parts, and all again`, async () => {
    const results = await saw(contender, 3);
    assertEquals(results.map(({ saw }) => saw.split), [[101, 11, 111, 1, 111], [10, 11, 111, 10, 111], [
      101,
      100,
      111,
      100,
      111,
    ]]);
  });

  for (const world of [2, 3]) {
    Deno.test(`${world} ranks of one host on ${name} add up in memory that all see, and sleep there`, async () => {
      for (const [rank, { saw: { shared } }] of (await saw(contender, world)).entries()) {
        assertEquals(shared.there, true);
        checkShared(shared, world);
        if (rank < world - 1) {
          assert(shared.computed < 0.5, `it computed for ${shared.computed} s while it waited`);
        }
      }
    });
  }

  Deno.test(`what 2 ranks on ${name} queue is reduced while they compute`, async () => {
    for (const { saw: { queued: { done, first, last, sums } } } of await saw(contender, 2)) {
      assert(done, "all were done when this thread had done its own work");
      assertEquals(last - first, 599);
      assertEquals(sums, Array.from({ length: 600 }, (_, i) => [2 * i, 1]));
    }
  });
}

for (const { name, open } of FAMILIES) {
  Deno.test(`what ${name} refuses is a sentence with its own words`, async () => {
    const { code, stderr } = await fails(open(), "mistaken");
    assertEquals(code, 5, stderr);
    const sentence =
      /hpctrain: Communication between ranks failed in broadcast 1 \(from nobody\): MPI_Bcast: .*root/;
    assertMatch(stderr, sentence);
  });

  Deno.test(`a rank on ${name} that throws ends the others, with its code`, async () => {
    const { code, stderr } = await fails(open(), "throws");
    assertEquals(code, 3, stderr);
    assertStringIncludes(stderr, "This rank's file is damaged.");
  });

  Deno.test(`a rank on ${name} that leaves early is a failure although its own code is 0`, async () => {
    const { code, stderr } = await fails(open(), "leaves");
    assertEquals(code, 5, stderr);
    assertSentence("core/ranks/mpi/collectives: before communication others", stderr);
  });

  Deno.test(`kill -9 of a rank on ${name} ends the others within 15 s, and leaves no process`, async () => {
    for (const victim of [0, 1]) {
      await inTemp(async (folder) => {
        const launcher = startRanks(open(), { ranks: 2, program: [PROGRAM, "endless", folder] });
        const files = [0, 1].map((rank) => `${folder}/${rank}.json`);
        await until("both ranks reduce", () => files.every(exists));
        const pids = files.map((file) => JSON.parse(Deno.readTextFileSync(file)).pid as number);
        const start = performance.now();
        Deno.kill(pids[victim], "SIGKILL");
        const { code } = await launcher.output();
        await until("no rank is left", () => !pids.some((pid) => exists(`/proc/${pid}`)), 60);
        const seconds = (performance.now() - start) / 1000;
        assert(within(seconds, 15), `${seconds} s`);
        assert(code !== 0);
      });
    }
  });
}

Deno.test("ranks of several hosts share no memory, and add up by messages", async () => {
  const results = await ranks(mpich(), 2, "shared", { MPIR_CVAR_NOLOCAL: "1" });
  for (const { saw } of results) {
    assertEquals(saw.shared.there, false);
    checkShared(saw.shared, 2);
  }
});

Deno.test("an abort is what every later collective says", async () => {
  const { code, stderr } = await fails(mpich(), "aborts");
  assertEquals(code, 5, stderr);
  assertStringIncludes(stderr, "hpctrain: Rank 3 was lost.");
});

Deno.test("a library that is not the launcher's is refused, before each rank trains alone", async () => {
  const { code, stderr } = await fails(mpich(), "verbs", { HPCTRAIN_MPI: openMpi().library });
  assertEquals(code, 7, stderr);
  assertStringIncludes(stderr, "2 ranks were started, but MPI counts 1");
  assertStringIncludes(stderr, "The library is Open MPI");
});

Deno.test("ranks that take themselves for others than MPI does are refused", async () => {
  const { code, stderr } = await fails(mpich(), "swapped");
  assertEquals(code, 7, stderr);
  assertSentence("core/ranks/mpi/collectives: rank started rank", stderr);
});

Deno.test("a rank that never comes to MPI is not waited for for ever", async () => {
  const { code, stderr } = await fails(mpich(), "absent");
  assert(code === 5 || code === 3 || code === 7, stderr); // MPICH's launcher makes one code of both
  assertStringIncludes(stderr, "This rank's file is missing.");
  assertSentence("core/ranks/mpi/collectives: rank waited others", stderr);
});

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}
