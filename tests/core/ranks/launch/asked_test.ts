// The words after `launch`, in our spelling and torchrun's.
import { assertEquals, assertThrows } from "@std/assert";
import { readLaunchOptions } from "../../../../commands/run/launch.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { sentenceNamed } from "../../../sentences.ts";

const PLAIN = { nodes: 1, nodeRank: 0, master: null, maxRestarts: 0, ranksPerGpu: 1, aside: false };

Deno.test("launch's own flags stand anywhere before --, as sbatch's do, and what is behind it is the command's", () => {
  const train = ["--model", "mlp"];
  const four = { ...PLAIN, ranks: 4, words: train };
  const own = ["-n", "4"];
  assertEquals(readLaunchOptions([...own, "--", ...train, "-n", "9"], {}), {
    ...four,
    own: [...own, "--"],
    words: [...train, "-n", "9"],
  });
  assertEquals(readLaunchOptions(["-n=4", ...train], {}), { ...four, own: ["-n=4"] });
  assertEquals(readLaunchOptions([...train, ...own], {}), { ...four, own });
  assertEquals(readLaunchOptions([...train, ...own, "--", "--lr=1"], {}), {
    ...four,
    own: [...own, "--"],
    words: [...train, "--lr=1"],
  });
  assertEquals(readLaunchOptions([...own, "pack", "a", "b"], {}), {
    ...four,
    own,
    words: ["pack", "a", "b"],
  });
});

Deno.test("--gpus-per-node is the number of ranks, as in a job", () => {
  const ranks = (...words: string[]) => readLaunchOptions(words, {}).ranks;
  assertEquals(ranks("--config", "c.yaml", "--gpus-per-node", "4"), 4);
  assertEquals(ranks("--gpus-per-node=2", "--ranks-per-gpu=2"), 4);
  assertEquals(ranks("--gpus-per-node=2", "-n", "2"), 2);
});

Deno.test("of two tasks on a node one starts the ranks, unless each of them is one of --nodes", () => {
  const task = (id: number) => ({
    ...{ SLURM_STEP_ID: "0", SLURM_STEP_NUM_TASKS: "4", SLURM_PROCID: `${id}`, SLURM_LOCALID: `${id % 2}` },
    ...{ SLURM_NODEID: `${Math.floor(id / 2)}`, MASTER_ADDR: "node1" },
  });
  const all = (...words: string[]) =>
    [0, 1, 2, 3].map((id) => readLaunchOptions(words, task(id))).map(({ aside, nodeRank }) =>
      aside ? null : nodeRank
    );
  assertEquals(all("-n=2", "--nnodes=2"), [0, null, 1, null]);
  assertEquals(all("-n=2", "--nnodes=4"), [0, 1, 2, 3]);
  assertEquals(all("-n=2", "--nnodes=2", "--node-rank=1"), [1, 1, 1, 1]);
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
    aside: false,
    words: ["--lr=1"],
  } as const;
  const rest = ["--rdzv_backend=c10d", "--rdzv-endpoint=node1:29400", "--max_restarts", "3", "--lr=1"];
  const asked = (words: string[]) => {
    const { own: _, ...request } = readLaunchOptions(words, {});
    return request;
  };
  assertEquals(asked([...torchrun, ...rest]), expected);
  const older = ["--master_addr=node1", "--master_port", "29400", "--max-restarts=3", "--", "--lr=1"];
  assertEquals(asked([...torchrun, ...older]), expected);
  const slurm = { SLURM_NODEID: "1", MASTER_ADDR: "node1" };
  assertEquals(readLaunchOptions(["-n=2", "--nodes=2"], slurm).master, {
    host: "node1",
    port: 29500,
  });
});

for (
  const [words, sentence] of [
    [["-n", "0"], sentenceNamed("core/ranks/launch/asked: whole number expected")],
    [["-n"], "--n needs"],
    [["-n=2", "--gpus-per-node=4"], "-n 2 and --gpus-per-node 4 are two numbers of ranks"],
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
