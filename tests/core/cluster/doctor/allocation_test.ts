import { assertEquals, assertMatch } from "@std/assert";
import { gatherAllocation, judgeAllocation } from "../../../../core/cluster/doctor/job.ts";

const judged = (env: Record<string, string>, gpus = 0) => judgeAllocation(gatherAllocation(env, {}, gpus))[0];
const STEP = {
  SLURM_JOB_ID: "7",
  SLURM_STEP_ID: "0",
  SLURM_PROCID: "0",
  SLURM_LOCALID: "0",
  SLURM_NODEID: "0",
  SLURM_NTASKS: "8",
  SLURM_STEP_NUM_TASKS: "8",
  SLURM_NNODES: "2",
  SLURM_STEP_NUM_NODES: "2",
  SLURM_STEP_NODELIST: "node[1-2]",
  SLURM_STEP_TASKS_PER_NODE: "4(x2)",
};

Deno.test("outside of a job there is this machine alone", () => {
  assertEquals(judged({}).said, "not inside a job: this machine alone");
});

Deno.test("a step of srun tells its ranks and nodes", () => {
  const line = judged(STEP, 4);
  assertEquals(line.state, "good");
  assertMatch(line.said, /^8 ranks on 2 nodes\. Ranks: from srun/);
});

Deno.test("one process in a job of several tasks is told to use srun", () => {
  const line = judged({ SLURM_JOB_ID: "7", SLURM_NTASKS: "8", SLURM_NNODES: "2" });
  assertEquals(line.state, "warn");
  assertMatch(line.fix!, /srun hpctrain/);
});

Deno.test("more tasks on a node than GPUs are refused with the line to change", () => {
  const line = judged(STEP, 2);
  assertEquals(line.state, "bad");
  assertMatch(line.fix!, /#SBATCH --ntasks-per-node=2/);
});

Deno.test("launchers that contradict each other are bad, and not an exception", () => {
  const line = judged({ ...STEP, RANK: "3", WORLD_SIZE: "8" });
  assertEquals(line.state, "bad");
  assertMatch(line.said, /^Two launchers disagree/);
  assertMatch(line.fix!, /Unset RANK and WORLD_SIZE/);
});
