// The words after `launch`, in our spelling and torchrun's.
import { assertEquals, assertThrows } from "@std/assert";
import { readLaunchOptions } from "../../../../core/ranks/launch/options.ts";
import { UserError } from "../../../../core/base/errors.ts";

const PLAIN = { nodes: 1, nodeRank: 0, master: null, maxRestarts: 0, ranksPerGpu: 1 };

Deno.test("launch's own flags end at -- or at the first word that is none of them", () => {
  const train = ["--model", "mlp", "-n", "9"];
  assertEquals(readLaunchOptions(["-n", "4", "--", ...train], {}), { ...PLAIN, ranks: 4, words: train });
  assertEquals(readLaunchOptions(["-n=4", ...train], {}), { ...PLAIN, ranks: 4, words: train });
  assertEquals(readLaunchOptions(["-n", "4", "pack", "a", "b"], {}), {
    ...PLAIN,
    ranks: 4,
    words: ["pack", "a", "b"],
  });
});

Deno.test("torchrun's spellings mean the same, with dashes or underscores", () => {
  const torchrun = [
    "--standalone",
    "--nproc_per_node=gpu",
    "--nnodes",
    "2:2",
    "--node_rank=1",
    "--rdzv-id=7",
  ];
  const master = { host: "node1", port: 29400 };
  const expected = {
    ranks: "gpu",
    nodes: 2,
    nodeRank: 1,
    master,
    maxRestarts: 3,
    ranksPerGpu: 1,
    words: ["--lr=1"],
  } as const;
  const rest = ["--rdzv_backend=c10d", "--rdzv-endpoint=node1:29400", "--max_restarts", "3", "--lr=1"];
  assertEquals(readLaunchOptions([...torchrun, ...rest], {}), expected);
  const older = ["--master_addr=node1", "--master_port", "29400", "--max-restarts=3", "--", "--lr=1"];
  assertEquals(readLaunchOptions([...torchrun, ...older], {}), expected);
  const slurm = { SLURM_NODEID: "1", MASTER_ADDR: "node1" };
  assertEquals(readLaunchOptions(["-n=2", "--nodes=2"], slurm).master, {
    host: "node1",
    port: 29500,
  });
});

for (
  const [words, sentence] of [
    [["-n", "0"], '-n is "0": a whole number from 1 on is expected, or gpu, cpu, numa or auto.'],
    [["-n"], "--n needs"],
    [
      ["-n=2", "--max-restart=2", "--", "--lr=1"],
      'Unknown flag --max-restart. Did you mean "--max-restarts"?',
    ],
    [["-n=2", "--nodes=2:4", "--lr=1"], "the same number of nodes from beginning to end"],
    [["-n=2", "--nodes=2", "--lr=1"], "--nodes 2 needs --node-rank"],
    [["-n=2", "--nodes=2", "--node-rank=2", "--rendezvous=a:1"], "nodes are numbered from 0 to 1"],
    [["-n=2", "--nodes=2", "--node-rank=1"], "--nodes 2 needs --rendezvous HOST:PORT"],
  ] as const
) {
  Deno.test(`launch ${words.join(" ")} is refused: ${sentence}`, () => {
    assertThrows(() => readLaunchOptions(words, {}), UserError, sentence);
  });
}
