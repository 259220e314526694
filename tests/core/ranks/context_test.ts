// Rank, world, node and master from what launchers leave in the environment.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import type { Env } from "../../../core/ranks/launchers.ts";
import { type PlaceFlags, placeFlags, type RankContext, rankContext } from "../../../core/ranks/context.ts";
import {
  gforker,
  hydra,
  hydraInSlurm,
  mpirun,
  pals,
  PBS_NODES,
  sbatch,
  srun,
  torchrun,
} from "./environments.ts";
import { assertSentence } from "../../sentences.ts";

const at = (env: Env, hostname = "here", flags: PlaceFlags = {}, pbsNodes: string[] = []) =>
  rankContext(env, flags, { hostname, pbsNodes });
const numbers = (where: RankContext) => [where.rank, where.world, where.localRank, where.localWorld];
const nodes = (where: RankContext) => [where.node, where.nodes, ...where.nodeNames];

Deno.test("without a launcher there is one process, and it is the master", () => {
  const where = at({ PATH: "/bin" });
  assertEquals(where, {
    ...{ rank: 0, world: 1, localRank: 0, localWorld: 1, node: 0, nodes: 1, nodeNames: ["here"] },
    ...{ master: { host: "here", port: null }, launcher: "alone", description: "One process." },
  });
});

Deno.test("srun's tasks are ranks, numbered over the nodes of the step", () => {
  const where = at(srun(6), "node2");
  assertEquals(numbers(where), [6, 8, 2, 4]);
  assertEquals(nodes(where), [1, 2, "node1", "node2"]);
  assertEquals(where.master, { host: "node1", port: null });
  assertEquals(where.launcher, "slurm");
  assertSentence("core/ranks/context: ranks srun slurm_procid", where.description);
});

Deno.test("a node of SLURM may have fewer tasks than another, and a step fewer nodes than its job", () => {
  const uneven = {
    SLURM_STEP_TASKS_PER_NODE: "2(x3),1",
    SLURM_STEP_NUM_TASKS: "7",
    SLURM_STEP_NUM_NODES: "4",
  };
  const list = { SLURM_STEP_NODELIST: "n[1-3],login1" };
  const last = at(srun(6, { ...uneven, ...list, SLURM_NODEID: "3", SLURM_LOCALID: "0" }), "login1");
  assertEquals(numbers(last), [6, 7, 0, 1]);
  assertEquals(nodes(last), [3, 4, "n1", "n2", "n3", "login1"]);
  const small = { SLURM_STEP_NUM_NODES: "1", SLURM_STEP_NUM_TASKS: "2", SLURM_STEP_TASKS_PER_NODE: "2" };
  const step = at(srun(1, { ...small, SLURM_STEP_NODELIST: "node2", SLURM_NODEID: "0" }), "node2");
  assertEquals([...numbers(step), ...nodes(step)], [1, 2, 1, 2, 0, 1, "node2"]);
  // Where only the whole job's counts are there, they are not the step's.
  const three = { ...small, SLURM_STEP_NUM_TASKS: "3", SLURM_STEP_TASKS_PER_NODE: "", SLURM_NODEID: "0" };
  assertEquals(numbers(at(srun(1, three), "node1")), [1, 3, 1, 3]);
});

Deno.test("srun is understood without the variables of the step that older versions lack", () => {
  const old = Object.entries(srun(5)).filter(([name]) => !/^SLURM_(STEP_[NT]|NTASKS|JOB_N)/.test(name));
  const where = at(Object.fromEntries(old), "node2");
  assertEquals([...numbers(where), ...nodes(where)], [5, 8, 1, 4, 1, 2, "node1", "node2"]);
  assertMatch(where.description, /SLURM_NPROCS is 8/);
});

Deno.test("a batch script and an allocation's shell are one process, and say what srun would start", () => {
  const script = at(sbatch(), "node1");
  assertEquals([script.world, script.launcher], [1, "alone"]);
  assertSentence("core/ranks/context: process slurm job", script.description);
  // SLURM's own steps for the script and for salloc's shell.
  for (const step of ["4294967291", "4294967290", "batch"]) {
    assertEquals(at({ ...sbatch(), SLURM_STEP_ID: step }).world, 1);
  }
});

Deno.test("mpirun's ranks are Open MPI's", () => {
  const where = at(mpirun(1));
  assertEquals([...numbers(where), ...nodes(where)], [1, 2, 1, 2, 0, 1, "here"]);
  assertEquals([where.launcher, where.master.host], ["openmpi", "here"]);
});

Deno.test("mpirun over nodes takes their names from PBS", () => {
  const spread = { OMPI_COMM_WORLD_SIZE: "8", OMPI_COMM_WORLD_LOCAL_SIZE: "4", OMPI_COMM_WORLD_RANK: "5" };
  const where = at(mpirun(1, { ...spread, PBS_JOBID: "42.server" }), "x1000c1", {}, PBS_NODES);
  assertEquals(numbers(where), [5, 8, 1, 4]);
  assertEquals(nodes(where), [1, 2, "x1000c0.site.example", "x1000c1.site.example"]);
  assertEquals(where.master.host, "x1000c0.site.example");
  // --map-by node: ranks go round the nodes, and the host's name tells which this is.
  const round = at(mpirun(1, { ...spread, OMPI_COMM_WORLD_RANK: "6" }), "x1000c0", {}, PBS_NODES);
  assertEquals(round.node, 0);
});

Deno.test("mpirun over nodes that nothing names leaves the master to MPI", () => {
  const spread = { OMPI_COMM_WORLD_SIZE: "4", OMPI_COMM_WORLD_RANK: "3" };
  const where = at(mpirun(1, spread));
  assertEquals(nodes(where), [1, 2]);
  assertEquals(where.master, { host: null, port: null });
});

Deno.test("the ranks of MPICH's mpiexec are known, of its gforker too, which tells no local rank", () => {
  for (const launcher of [hydra, gforker]) {
    const where = at(launcher(1));
    assertEquals([...numbers(where), ...nodes(where)], [1, 2, 1, 2, 0, 1, "here"]);
    assertEquals(where.launcher, "mpich");
  }
});

Deno.test("PALS numbers ranks and nodes, and PBS names the nodes", () => {
  const where = at(pals(6), "x1000c1", {}, PBS_NODES);
  assertEquals(numbers(where), [6, 8, 2, 4]);
  assertEquals(nodes(where), [1, 2, "x1000c0.site.example", "x1000c1.site.example"]);
  assertEquals(where.launcher, "pals");
});

Deno.test("a PBS job without mpiexec is one process", () => {
  const where = at({ PBS_JOBID: "42.server", PBS_NODEFILE: "/no" }, "x1000c0", {}, PBS_NODES);
  assertEquals([where.world, where.launcher, where.nodeNames], [1, "alone", ["x1000c0"]]);
  assertSentence("core/ranks/context: pbs job server", where.description);
});

Deno.test("torchrun's ranks come with their master", () => {
  const where = at(torchrun(1));
  assertEquals([...numbers(where), ...nodes(where)], [1, 2, 1, 2, 0, 1, "here"]);
  assertEquals(where.master, { host: "localhost", port: 46493 });
  assertEquals(where.launcher, "torchrun");
  assertEquals(at(torchrun(1, { MASTER_PORT: "0" })).master.port, null, "any free port");
});

Deno.test("WORLD_SIZE=1 alone makes rank 0 of 1", () => {
  assertEquals(numbers(at({ WORLD_SIZE: "1" })), [0, 1, 0, 1]);
});

Deno.test("RANK and WORLD_SIZE alone are one node at a loopback address, else one rank a node", () => {
  const two = { RANK: "1", WORLD_SIZE: "2" };
  assertEquals(numbers(at({ ...two, MASTER_ADDR: "127.0.0.1" })), [1, 2, 1, 2]);
  assertEquals(numbers(at(two)), [1, 2, 1, 2]);
  const apart = at({ ...two, MASTER_ADDR: "node1" });
  assertEquals([...numbers(apart), ...nodes(apart)], [1, 2, 0, 1, 1, 2]);
  assertEquals(apart.master.host, "node1");
  // Three on one node and one on the other: the half that is counted out can't be less than what LOCAL_RANK says.
  const uneven = {
    RANK: "2",
    WORLD_SIZE: "4",
    LOCAL_RANK: "2",
    MASTER_ADDR: "n1",
    SLURM_JOB_NODELIST: "n[1-2]",
  };
  assertEquals(numbers(at(uneven, "n1")), [2, 4, 2, 3]);
});

Deno.test("torchrun inside srun counts: its ranks are the real ones, the nodes are SLURM's", () => {
  const task = {
    SLURM_STEP_NUM_TASKS: "2",
    SLURM_STEP_TASKS_PER_NODE: "1(x2)",
    SLURM_PROCID: "1",
    SLURM_LOCALID: "0",
  };
  const group = { GROUP_RANK: "1", GROUP_WORLD_SIZE: "2", RANK: "3", WORLD_SIZE: "4", MASTER_ADDR: "node1" };
  const where = at({ ...srun(4, task), ...torchrun(1, group) }, "node2");
  assertEquals([...numbers(where), ...nodes(where)], [3, 4, 1, 2, 1, 2, "node1", "node2"]);
  assertEquals(where.launcher, "torchrun");
  // As many ranks as tasks, in another order: torchrun numbers nodes as they arrive.
  const swapped = {
    ...group,
    RANK: "0",
    GROUP_RANK: "0",
    WORLD_SIZE: "2",
    LOCAL_RANK: "0",
    LOCAL_WORLD_SIZE: "1",
  };
  assertEquals(at({ ...srun(4, task), ...torchrun(0, swapped) }, "node2").rank, 0);
});

Deno.test("mpirun's ranks count where SLURM started its daemons", () => {
  // On a remote node mpirun's daemon is a SLURM task itself, and its ranks inherit that task's variables.
  const daemon = {
    SLURM_STEP_NUM_TASKS: "1",
    SLURM_STEP_TASKS_PER_NODE: "1",
    SLURM_PROCID: "0",
    SLURM_NODEID: "0",
  };
  const ranks = { OMPI_COMM_WORLD_SIZE: "4", OMPI_COMM_WORLD_RANK: "3" };
  const where = at({ ...srun(0, { ...daemon, SLURM_STEP_NODELIST: "node2" }), ...mpirun(1, ranks) }, "node2");
  assertEquals([...numbers(where), ...nodes(where)], [3, 4, 1, 2, 1, 2, "node1", "node2"]);
  assertEquals([where.launcher, where.master.host], ["openmpi", "node1"]);
});

Deno.test("mpiexec's ranks count where its proxies are a SLURM step, though the step numbers them otherwise", () => {
  const where = at(hydraInSlurm(), "node2");
  assertEquals([...numbers(where), ...nodes(where)], [5, 6, 1, 2, 1, 2, "node1", "node2"]);
  assertEquals([where.launcher, where.master.host], ["mpich", "node1"]);
});

Deno.test("what a script exports beside srun agrees with it, and names the master", () => {
  const script = { WORLD_SIZE: "8", MASTER_ADDR: "node1-ib", MASTER_PORT: "29500" };
  const where = at({ ...srun(6), ...script }, "node2");
  assertEquals([where.rank, where.launcher, where.localRank], [6, "slurm", 2]);
  assertEquals(where.master, { host: "node1-ib", port: 29500 });
  // RANK too, of a wrapper; --distribution=cyclic put rank 6 on the first node.
  const cyclic = { SLURM_LOCALID: "3", SLURM_NODEID: "0" };
  const wrapper = at({ ...srun(6, cyclic), ...script, RANK: "6" }, "node1");
  assertEquals([...numbers(wrapper), wrapper.node, wrapper.launcher], [6, 8, 3, 4, 0, "torchrun"]);
  // srun --mpi=pmi2 says it in MPICH's way too.
  assertEquals(at({ ...srun(6), PMI_RANK: "6", PMI_SIZE: "8" }, "node2").launcher, "slurm");
});

Deno.test("flags come first, both of them or as many as agree", () => {
  const where = at(srun(6), "node2", { rank: 1, world: 2, localRank: 0, masterAddr: "m", masterPort: 4000 });
  assertEquals([where.rank, where.world, where.localRank, where.launcher], [1, 2, 0, "flags"]);
  assertEquals(where.master, { host: "m", port: 4000 });
  assertEquals(where.description, "Ranks: from --rank and --world-size.");
  assertEquals(numbers(at({}, "here", { rank: 3, world: 4 })), [3, 4, 3, 4]);
  // Each of srun's tasks for itself: a sweep.
  assertEquals(at(srun(6), "node2", { world: 1 }).world, 1);
  const agreeing = at(srun(6), "node2", { world: 8, masterPort: 4000 });
  assertEquals([agreeing.rank, agreeing.launcher, agreeing.master.port], [6, "slurm", 4000]);
  const { PMI_SIZE: _, ...sizeless } = pals(6);
  assertEquals(at(sizeless, "here", { world: 8 }).world, 8);
});

Deno.test("settings that were left out are no flags", () => {
  const none = { rank: -1, world_size: 0, local_rank: -1, master_addr: "", master_port: 0 };
  assert(Object.values(placeFlags(none)).every((value) => value === undefined));
  assertEquals(placeFlags({ ...none, rank: 0, world_size: 2 }).rank, 0);
});

Deno.test("a process reads its own place, and PBS_NODEFILE where there is one", async () => {
  const file = await Deno.makeTempFile();
  try {
    Deno.writeTextFileSync(file, PBS_NODES.join("\n"));
    const where = rankContext({ ...pals(6), PBS_NODEFILE: file });
    assertEquals(where.nodeNames, ["x1000c0.site.example", "x1000c1.site.example"]);
  } finally {
    await Deno.remove(file);
  }
  assertEquals(rankContext({ ...pals(6), PBS_NODEFILE: file }).nodeNames, []);
  assertThrows(() => rankContext({ ...pals(6), PBS_NODEFILE: "/" }), UserError, "PBS_NODEFILE names /");
});

Deno.test("under torchrun itself each process knows its place", async () => {
  const python = Deno.env.get("HPCTRAIN_PYTHON");
  if (!python) throw new Error("set HPCTRAIN_PYTHON to a Python with torch");
  const program = `import { rankContext } from "${new URL(
    "../../../core/ranks/context.ts",
    import.meta.url,
  )}";
    console.log(JSON.stringify(rankContext(Deno.env.toObject())));`;
  const script = await Deno.makeTempFile({ suffix: ".ts" });
  Deno.writeTextFileSync(script, program);
  const args = [
    "-m",
    "torch.distributed.run",
    "--nproc-per-node=2",
    "--master-port=0",
    "--no-python",
    Deno.execPath(),
  ];
  const { stdout, stderr } = await new Deno.Command(python, {
    args: [...args, "run", "--quiet", "--allow-all", "--no-check", script],
  }).output();
  await Deno.remove(script);
  const lines = new TextDecoder().decode(stdout).trim().split("\n").filter((line) => line.startsWith("{"));
  const places: RankContext[] = lines.map((line) => JSON.parse(line)).sort((a, b) => a.rank - b.rank);
  const all = [[0, 2, 0, 2], [1, 2, 1, 2]];
  assertEquals(places.map(numbers), all, new TextDecoder().decode(stderr));
  assertEquals(
    new Set(places.map(({ launcher, node, nodes }) => `${launcher} ${node} ${nodes}`)),
    new Set(["torchrun 0 1"]),
  );
});
