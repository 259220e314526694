// Ranks as processes: what they print, how they end, how soon.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl } from "paths";
import { gpuOf, joinRefusal } from "../../../../core/ranks/control/job.ts";
import { assertSentence } from "../../../sentences.ts";

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  /** When it ended, by performance.now(). */
  readonly at: number;
}

const PROGRAM = fromFileUrl(new URL("./rank.ts", import.meta.url));

/** Starts some ranks of a job and waits for their end; `env` is one for all or one for each. */
async function ranks(
  what: string,
  started: readonly number[],
  world: number,
  env: (rank: number) => Record<string, string> = () => ({}),
): Promise<Ended[]> {
  const folder = await Deno.makeTempDir();
  const { HPCTRAIN_SECRET: _, ...outer } = Deno.env.toObject();
  try {
    return await Promise.all(started.map(async (rank) => {
      const command = new Deno.Command(Deno.execPath(), {
        args: ["run", "--allow-all", "--no-check", "--quiet", PROGRAM, what, folder],
        env: {
          ...outer,
          NO_COLOR: "1",
          RANK: `${rank}`,
          WORLD_SIZE: `${world}`,
          LOCAL_RANK: `${rank}`,
          LOCAL_WORLD_SIZE: `${world}`,
          ...env(rank),
        },
        clearEnv: true,
        stdout: "piped",
        stderr: "piped",
      });
      const { code, stdout, stderr } = await command.output();
      const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
      return { code, out: text(stdout), err: text(stderr), at: performance.now() };
    }));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const all = (ended: readonly Ended[]) =>
  ended.map(({ code, out, err }) => `${code}\n${out}${err}`).join("\n---\n");

Deno.test("ranks of a host meet by a file that only their user may read, and share a value, bytes and a barrier", async () => {
  const ended = await ranks("run", [0, 1, 2], 3);
  assertEquals(ended.map(({ code }) => code), [0, 0, 0], all(ended));
  for (const { out } of ended) {
    const said = JSON.parse(out.split("\n")[0]);
    assertEquals([said.ready, said.word, said.id], [[0, 1, 2], { word: "hello", bytes: [1, 2] }, [7, 8, 9]]);
  }
  assertMatch(ended[1].out, /Rank 1 met rank 0 at 127.0.0.1:\d+/);
});

Deno.test("ranks that were asked at different times save and stop at the same step", async () => {
  const ended = await ranks("wish", [0, 1, 2], 3);
  const due = ended.map(({ out }) => out.trim().split("\n").slice(1).map((line) => JSON.parse(line)));
  assertEquals(ended.map(({ code }) => code), [0, 0, 0], all(ended));
  assertEquals(due[0].map(({ due }) => [due.what, due.reason]), [["save", "the file SAVE"], [
    "stop",
    "SIGTERM",
  ]]);
  assertEquals(due[1], due[0]);
  assertEquals(due[2], due[0]);
});

Deno.test("when a rank throws, the others end although they are inside native calls, and say whose fault it was", async () => {
  const ended = await ranks("throw", [0, 1, 2], 3);
  assertEquals(ended.map(({ code }) => code), [5, 3, 5], all(ended));
  for (const rank of [0, 2]) {
    assertMatch(
      ended[rank].err,
      /hpctrain: Rank 1 on \S+ failed first, at step 3: images\/3\.jpg: is not an image\.\n$/,
    );
  }
  assert(Math.max(...ended.map(({ at }) => at - ended[1].at)) < 15_000, "from the fault on");
});

for (const [called, victim] of [["rank 0", 0], ["another rank", 1]] as const) {
  Deno.test(`when ${called} is killed, the others end and name it`, async () => {
    const ended = await ranks("kill", [0, 1, 2], 3, () => ({ TEST_VICTIM: `${victim}` }));
    assertEquals(
      ended.map(({ code }) => code),
      [0, 1, 2].map((rank) => rank === victim ? 137 : 5),
      all(ended),
    );
    for (const { err } of ended.filter((_, rank) => rank !== victim)) {
      assertMatch(
        err,
        new RegExp(`Rank ${victim} on \\S+ is gone: its process ended without a word \\(killed`),
      );
    }
  });
}

Deno.test("a rank that sleeps is named with what it never entered, where it was, and for how long", async () => {
  const ended = await ranks("hang", [0, 1, 2], 3);
  assertEquals(ended.map(({ code }) => code), [5, 5, 5], all(ended));
  for (const { err } of ended) {
    assertMatch(
      err,
      /hpctrain: Rank 1 on \S+ never entered all-reduce 4 \(block 7\): in data\.next for \d+ s\. All ranks: \S+\/logs\/run\/hang-3\.json\.\n/,
    );
  }
  assert(
    Math.max(...ended.map(({ at }) => at - ended[1].at)) < 15_000,
    "it sleeps for a minute, in a native call",
  );
});

Deno.test("ranks with different secrets, and a port that is taken, end in a sentence", async () => {
  const secret = await ranks("run", [0, 1], 2, (rank) => ({
    HPCTRAIN_SECRET: `secret number ${rank} of these tests`,
    TEST_LIMITS: '{"arrive":7000}',
  }));
  assertEquals(secret.map(({ code }) => code), [5, 5], all(secret));
  assertMatch(secret[1].err, /has another secret than this rank|Rank 0 was not found/);
  assertMatch(secret[0].err, /Of 2 ranks 1 came within \d s; rank 1 \(expected on \S+\) never arrived/);
  const short = await ranks("run", [0], 2, () => ({ HPCTRAIN_SECRET: "short" }));
  assertSentence("core/ranks/control/control: hpctrain_secret characters least", short[0].err);

  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const taken = await ranks("run", [0, 1], 2, () => ({ MASTER_ADDR: "127.0.0.1", MASTER_PORT: `${port}` }));
  assertEquals(taken.map(({ code }) => code), [5, 5], all(taken));
  for (const { err } of taken) {
    assertMatch(
      err,
      new RegExp(`Rank 0 was told to listen at port ${port} \\(MASTER_PORT, --master-port\\)`),
    );
  }
});

Deno.test("torchrun's own port is left alone", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const env = { MASTER_ADDR: "127.0.0.1", MASTER_PORT: `${listener.addr.port}`, TORCHELASTIC_RUN_ID: "run" };
  const ended = await ranks("run", [0, 1], 2, () => env);
  assertEquals(ended.map(({ code }) => code), [0, 0], all(ended));
});

Deno.test("two ranks on one MIG device are told that a process sees no other", () => {
  const first = {
    rank: 0,
    world: 2,
    localRank: 0,
    host: "n1",
    pid: 1,
    device: "MIG-1",
    versions: {},
    settings: "",
  };
  const here = { members: new Map(), gpus: new Map([[gpuOf(first)!, first]]) };
  const refused = joinRefusal({ ...first, rank: 1, localRank: 1, pid: 2 }, first, here);
  assertSentence("core/ranks/control/control: ranks both use", refused!.sentence);
});

Deno.test("ranks on nodes of two architectures are refused before their libtorch is compared", () => {
  const on = (rank: number, architecture: string, libtorch: string) => ({
    ...{ rank, world: 2, localRank: 0, host: `n${rank}`, pid: 1, device: null, settings: "" },
    versions: { hpctrain: "1.0.0", architecture, libtorch },
  });
  const first = on(0, "x86_64", "2.15.0+cpu");
  const here = { members: new Map(), gpus: new Map() };
  assertEquals(joinRefusal(on(1, "x86_64", "2.15.0+cpu"), first, here), null);
  const { sentence, code } = joinRefusal(on(1, "aarch64", "2.15.0"), first, here)!;
  assertSentence("core/ranks/control/control: ank runs aarch", sentence);
  assertEquals(code, 7);
});

Deno.test("two ranks on one GPU, and other settings, are refused on every rank", async () => {
  const device = await ranks("run", [0, 1], 2, () => ({ TEST_DEVICE: "GPU 0" }));
  assertEquals(device.map(({ code }) => code), [2, 2], all(device));
  for (const { err } of device) {
    assertMatch(err, /Ranks 0 and 1 on \S+ both use GPU 0: give each rank its own GPU/);
  }
  const settings = await ranks("run", [0, 1], 2, (rank) => ({ TEST_BATCH: `${64 + rank}` }));
  assertEquals(settings.map(({ code }) => code), [2, 2], all(settings));
  for (const { err } of settings) {
    assertMatch(err, /Rank 1 on \S+ was started .*training.batch_size is 65 there and 64 here/);
  }
});
