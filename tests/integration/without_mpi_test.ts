// Ranks on CPUs without MPI, however they were started: the numbers of one rank, and the endings of those with MPI.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { within } from "../cpu_time.ts";
import { connectHosts, HOSTS, ip, on, removeHosts, twoHostsPossible } from "../two_hosts.ts";
import { launch, processesOf, stepped } from "./launches.ts";
import { finish, inTemp, type Result, start, succeed, until } from "./program.ts";
import { apart, numbers, tensors, weightsApart } from "./ranks.ts";
import { allWell, freePort, sharedFiles, startByHand, trainArgs, withoutMpi } from "./without_mpi.ts";
import { assertSentence } from "../sentences.ts";

const GPT = [
  ...["--model=gpt", "--data-type=synthetic", "--layers=2", "--hidden-size=32", "--heads=2", "--context=16"],
  ...["--train-samples=50", "--val-samples=10", "--global-batch-size=16", "--batch-size=3", "--epochs=2"],
];
const PLAIN = [...GPT, "--dropout=0", "--clip-norm=0.5", "--ema=0.9", "--optimizer=sgd"];

const alone = (cwd: string, name: string, flags: readonly string[]) =>
  succeed(trainArgs(cwd, name, flags), { cwd, env: { OMP_NUM_THREADS: "1" } });

const near = (cwd: string, name: string) => {
  const found = {
    losses: apart(numbers(cwd, "one"), numbers(cwd, name)),
    weights: weightsApart(tensors(cwd, "one"), tensors(cwd, name)),
  };
  assert(found.losses < 1e-6 && found.weights < 1e-6, `${name}: ${JSON.stringify(found)}`);
};

Deno.test("ranks started by hand have one rank's losses and weights, the same bits by shared memory, by TCP and once more, and say which and why", () =>
  inTemp(async (cwd) => {
    await alone(cwd, "one", PLAIN);
    const ways = [
      ["auto", "by shared memory; no MPI was found"],
      ["tcp", "by TCP; --distributed-backend tcp"],
      ["gloo", "by shared memory; --distributed-backend gloo"],
    ];
    for (const [backend, says] of ways) {
      const flags = [...PLAIN, `--distributed-backend=${backend}`];
      const said = await allWell(startByHand(cwd, 3, trainArgs(cwd, backend, flags)));
      assertStringIncludes(said, `\nCommunication: 3 CPU ranks ${says}.\n`);
      near(cwd, backend);
      assertEquals(numbers(cwd, backend), numbers(cwd, "auto"));
      assertEquals(tensors(cwd, backend), tensors(cwd, "auto"));
    }
    await allWell(startByHand(cwd, 2, trainArgs(cwd, "zero", [...PLAIN, "--zero=1"])));
    near(cwd, "zero");
  }));

Deno.test("--deterministic=world has the same bits on one rank, on 2 by shared memory and on 4 by TCP", () =>
  inTemp(async (cwd) => {
    const world = [...GPT, "--deterministic=world", "--optimizer=adamw", "--dropout=0.1"];
    await alone(cwd, "one", world);
    await allWell(startByHand(cwd, 2, trainArgs(cwd, "shared", world)));
    await allWell(startByHand(cwd, 4, trainArgs(cwd, "tcp", [...world, "--distributed-backend=tcp"])));
    for (const name of ["shared", "tcp"]) {
      assertEquals(numbers(cwd, name), numbers(cwd, "one"));
      assertEquals(tensors(cwd, name), tensors(cwd, "one"));
    }
  }));

Deno.test("torchrun starts two ranks of hpctrain without MPI", () =>
  inTemp(async (cwd) => {
    const python = Deno.env.get("HPCTRAIN_PYTHON");
    if (!python) throw new Error("set HPCTRAIN_PYTHON to a Python with PyTorch; ./scripts/test sets it");
    await alone(cwd, "one", PLAIN);
    const torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--no-python"];
    const through = [python, ...torchrun];
    const child = start(trainArgs(cwd, "r", PLAIN), { cwd, env: withoutMpi(cwd), through });
    const { code, stdout, stderr } = await finish(child, 120);
    assertEquals(code, 0, stdout + stderr);
    assertSentence("integration/without_mpi: communication cpu ranks", stdout);
    near(cwd, "r");
  }));

const ENDLESS = [
  ...[
    "--model=mlp",
    "--data-type=synthetic",
    "--val-samples=64",
    "--device=cpu",
    "--run-name=r",
    "--no-wandb",
  ],
  ...["--train-samples=60000", "--epochs=1000", "--log-interval=10"],
];

async function ends(launched: ReturnType<typeof launch>, cwd: string, before: string[]): Promise<Result> {
  const result = await launched.result;
  assertEquals(processesOf(cwd), []);
  assertEquals([...Deno.readDirSync(cwd)].filter(({ name }) => name.startsWith("hpctrain-")), []);
  assertEquals(sharedFiles().filter((name) => !before.includes(name)), []);
  return result;
}

const lastLine = ({ stderr }: Result) => stderr.trimEnd().split("\n").at(-1)!;

for (const backend of ["auto", "tcp"]) {
  Deno.test(`launch without MPI, backend ${backend}: kill -9 of either rank ends all within 10 s, named, and leaves nothing`, async () => {
    for (const rank of [0, 1]) {
      await inTemp(async (cwd) => {
        const before = sharedFiles();
        const words = ["-n", "2", "--", ...ENDLESS, `--distributed-backend=${backend}`];
        const launched = launch(cwd, null, words, withoutMpi(cwd));
        await stepped(cwd, "r", 20);
        Deno.kill(launched.pid(rank), "SIGKILL");
        const killed = performance.now();
        const result = await ends(launched, cwd, before);
        const seconds = (performance.now() - killed) / 1000;
        assertEquals(result.code, 5, result.stderr);
        assert(within(seconds, 10), `${seconds} s`);
        const sentence =
          `^hpctrain: Rank ${rank} on \\S+ failed first, after step \\d+: it was killed \\(SIGKILL\\)`;
        assertMatch(lastLine(result), new RegExp(sentence));
      });
    }
  });
}

Deno.test("launch without MPI: a rank that stands still is named, and all end with code 5", () =>
  inTemp(async (cwd) => {
    const before = sharedFiles();
    const launched = launch(cwd, null, ["-n", "2", "--", ...ENDLESS], withoutMpi(cwd));
    await stepped(cwd, "r", 20);
    Deno.kill(launched.pid(1), "SIGSTOP");
    const result = await ends(launched, cwd, before);
    assertEquals(result.code, 5, result.stderr);
    assertMatch(lastLine(result), /^hpctrain: Rank 1 on \S+ was not heard of for \d+ s/);
  }));

Deno.test("kill -9 of a rank that was started by hand: the other names it, with code 5", () =>
  inTemp(async (cwd) => {
    for (const backend of ["shm", "tcp"]) {
      const name = `r-${backend}`;
      const flags = [...ENDLESS, `--distributed-backend=${backend}`];
      const ranks = startByHand(cwd, 3, trainArgs(cwd, name, flags));
      await stepped(cwd, name, 20);
      ranks[1].kill("SIGKILL");
      const [zero, one, two] = await Promise.all(ranks.map((rank) => finish(rank, 60)));
      assertEquals([zero.code, one.code, two.code], [5, 137, 5], zero.stderr + two.stderr);
      for (const { stderr } of [zero, two]) {
        assertMatch(stderr, /^hpctrain: Rank 1 on \S+ is gone: its process ended without a word/m);
      }
    }
  }));

Deno.test("bench allreduce measures by shared memory and by TCP", () =>
  inTemp(async (cwd) => {
    for (const backend of ["shm", "tcp"]) {
      const words = ["bench", "allreduce", "--device=cpu", "--sizes=4KiB,1MiB", "--json"];
      const { code, stdout, stderr } = await launch(cwd, null, [
        "-n",
        "2",
        "--",
        ...words,
        `--distributed-backend=${backend}`,
      ], withoutMpi(cwd)).result;
      assertEquals(code, 0, stderr);
      const said = JSON.parse(stdout);
      assertEquals([said.backend, said.ranks], [backend, 2]);
      assertEquals(said.measured.map(({ bytes }: { bytes: number }) => bytes), [4096, 1048576]);
    }
  }));

const possible = twoHostsPossible();

Deno.test({
  name: "launch on two hosts: ranks train by TCP as one, and end when the cable is cut (needs root and ip)",
  ignore: !possible,
  fn: () =>
    inTemp(async (cwd) => {
      connectHosts();
      try {
        await alone(cwd, "one", PLAIN);
        const two = (name: string, flags: readonly string[]) => {
          const port = freePort();
          return HOSTS.map((_, node) => {
            const place = ["--nodes=2", `--node-rank=${node}`, `--rendezvous=${HOSTS[0].address}:${port}`];
            const words = ["launch", "-n", "1", ...place, "--"];
            const args = [...words, ...trainArgs(cwd, name, [...flags, "--distributed-backend=tcp"])];
            return start(args, { cwd, env: { ...withoutMpi(cwd), TMPDIR: cwd }, through: on(node) });
          });
        };
        assertMatch(await allWell(two("r", PLAIN)), /^Communication: 2 CPU ranks by TCP; /m);
        near(cwd, "r");
        const nodes = two("cut", ENDLESS);
        await stepped(cwd, "cut", 20);
        assert(ip("-n", HOSTS[0].namespace, "link", "set", HOSTS[0].card, "down"));
        const results = await Promise.all(nodes.map((node) => finish(node, 60)));
        assertEquals(results.map(({ code }) => code), [5, 5], results.map(({ stderr }) => stderr).join());
        assertMatch(results[0].stderr, /Rank 1 on \S+ was not heard of for \d+ s/);
        await until("no rank is left", () => processesOf(cwd).length === 0, 10);
      } finally {
        removeHosts();
      }
    }),
});

Deno.test({
  name: "ranks of one machine in containers of their own can't share memory, and take TCP (needs root)",
  ignore: Deno.uid() !== 0,
  fn: () =>
    inTemp(async (cwd) => {
      const contained = (rank: number) => rank === 1 ? ["unshare", "--pid", "--fork", "--kill-child"] : [];
      const bench = ["bench", "allreduce", "--device=cpu", "--sizes=64KiB"];
      const said = await allWell(startByHand(cwd, 2, bench, contained));
      assertMatch(said, /^Communication: 2 CPU ranks on 2 nodes by TCP; no MPI was found\.$/m);
    }),
});
