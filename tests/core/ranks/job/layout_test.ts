// Layouts of SLURM jobs that fit, and those that are refused with the line to change.
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { boundGpu, refuseIdleGpus, refuseJobLayout } from "../../../../core/ranks/job/layout.ts";
import { rankContext } from "../../../../core/ranks/context.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { assertSentence } from "../../../sentences.ts";

type Env = Record<string, string>;
const WISHES = { device: "auto", anyLayout: false, gpusPerNode: 0 } as const;

/** The first task of a step of two nodes, as SLURM 22.05 describes it. */
const step = (perNode: number, gpus: number, more: Env = {}): Env => ({
  SLURM_JOB_ID: "17",
  SLURM_STEP_ID: "0",
  SLURM_PROCID: "0",
  SLURM_LOCALID: "0",
  SLURM_NODEID: "0",
  SLURM_STEP_NUM_TASKS: String(2 * perNode),
  SLURM_NTASKS: String(2 * perNode),
  SLURM_STEP_NUM_NODES: "2",
  SLURM_STEP_NODELIST: "node[1-2]",
  SLURM_STEP_TASKS_PER_NODE: `${perNode}(x2)`,
  ...(gpus > 0 ? { SLURM_GPUS_ON_NODE: String(gpus) } : {}),
  ...more,
});
const look = (env: Env, wishes: Parameters<typeof refuseJobLayout>[2] = WISHES) =>
  refuseJobLayout(env, rankContext(env, {}, { hostname: "node1" }), wishes);
const refusal = (env: Env) => assertThrows(() => look(env), UserError).message;

const devices = (count: number) => ({
  CUDA_VISIBLE_DEVICES: Array.from({ length: count }, (_, i) => i).join(),
});

Deno.test("a SLURM step with a task for each GPU, or with no GPUs known, is no mistake of layout", () => {
  look(step(4, 4, devices(4)));
  look(step(2, 0)); // a site whose SLURM knows of no GPUs
  look(step(1, 4, { CUDA_VISIBLE_DEVICES: "3" })); // chosen by hand
  look({});
});

Deno.test("eight tasks of a node with four MI250X, which are eight GPUs, fit; so do wrappers that show each its own", () => {
  const all = { ROCR_VISIBLE_DEVICES: "0,1,2,3,4,5,6,7" };
  look(step(8, 8, all));
  look(step(8, 8, { ROCR_VISIBLE_DEVICES: "3" })); // as LUMI's and Frontier's guides have it
  assertSentence("core/ranks/job/layout: gpus tasks gpus", refusal(step(4, 8, all)));
  assertMatch(refusal(step(8, 4, all)), /4 GPUs and 8 tasks.*#SBATCH --ntasks-per-node=4/);
});

Deno.test("tasks and GPUs that don't match are refused with the number to write", () => {
  assertMatch(
    refusal(step(4, 2, devices(2))),
    /2 GPUs and 4 tasks.*#SBATCH --ntasks-per-node=2, or --gpus-per-node=4\./,
  );
  assertSentence("core/ranks/job/layout: gpus task gpus", refusal(step(1, 4, devices(4))));
  assertMatch(refusal(step(3, 4, devices(4))), /1 GPU would be idle.*--gpus-per-node=3/);
  look(step(2, 4, devices(4)), { ...WISHES, gpusPerNode: 2 }); // GPUS=2: somebody wants two of four
});

Deno.test("tasks of a node that see one GPU each are refused, with the lines to write, or go on with --any-layout", () => {
  const own = { CUDA_VISIBLE_DEVICES: "0", SLURM_STEP_GPUS: "2" };
  assertMatch(
    refusal(step(4, 4, own)),
    /rank 0 see GPU 2 alone.*the 4 GPUs.*#SBATCH --gpus-per-node=4 in place of --gpus-per-task.*srun --gpu-bind=none/,
  );
  look(step(4, 4, own), { ...WISHES, anyLayout: true });
  look(step(4, 4, own), { ...WISHES, device: "cpu" });
  look(step(1, 1, { CUDA_VISIBLE_DEVICES: "0", SLURM_STEP_GPUS: "0" })); // a GPU on each node
});

Deno.test("ranks on CPUs, and who says --any-layout, may use GPU nodes as they like", () => {
  look(step(4, 2, devices(2)), { ...WISHES, device: "cpu" });
  look(step(1, 4, devices(4)), { ...WISHES, anyLayout: true });
});

Deno.test("one process in a job for several is refused, with srun and the lines to write", () => {
  const batch = {
    SLURM_JOB_ID: "17",
    SLURM_PROCID: "0",
    SLURM_JOB_NUM_NODES: "2",
    SLURM_TASKS_PER_NODE: "2(x2)",
  };
  assertMatch(
    refusal({ ...batch, SLURM_NTASKS: "4" }),
    /^SLURM job 17 has 4 tasks.*`srun hpctrain \.\.\.`.*--nodes=1/,
  );
  assertMatch(refusal({ ...batch, SLURM_TASKS_PER_NODE: "1(x2)" }), /has 2 tasks/);
  assertMatch(
    refusal({ SLURM_JOB_ID: "17", SLURM_NTASKS: "3", SLURM_JOB_NUM_NODES: "1" }),
    /one task: #SBATCH --ntasks-per-node=1\..*--world-size 1/,
  );
  look({ SLURM_JOB_ID: "17", SLURM_NTASKS: "1", SLURM_JOB_NUM_NODES: "1" });
  const env = { ...batch, SLURM_NTASKS: "4" };
  refuseJobLayout(env, rankContext(env, { world: 1 }, { hostname: "node1" }), WISHES);
});

Deno.test("ranks that launch has started in a task of each node fit, as many as it started", () => {
  const started = {
    RANK: "5",
    WORLD_SIZE: "8",
    LOCAL_RANK: "1",
    LOCAL_WORLD_SIZE: "4",
    GROUP_RANK: "1",
    GROUP_WORLD_SIZE: "2",
  };
  look(step(1, 4, { ...devices(4), ...started }));
});

Deno.test("GPUs that a job holds and nobody can use are no reason to train on its cores in silence", () => {
  const env = { SLURM_JOB_ID: "17", SLURM_GPUS_ON_NODE: "2" };
  const { message } = assertThrows(
    () => refuseIdleGpus(env, "cpu", () => "there is no driver", WISHES),
    UserError,
  );
  assertSentence("core/ranks/job/layout: slurm job gpus", message);
  refuseIdleGpus(env, "cuda", () => "", WISHES);
  refuseIdleGpus(env, "cpu", () => "", { ...WISHES, device: "cpu" });
  refuseIdleGpus({ SLURM_JOB_ID: "17" }, "cpu", () => "", WISHES);
});

Deno.test("the GPU of a task is known where SLURM bound one to it", () => {
  assertEquals(boundGpu(step(2, 2, { SLURM_STEP_GPUS: "1" })), "GPU 1");
  assertEquals(boundGpu(step(2, 2, { SLURM_STEP_GPUS: "0,1" })), null);
  assertEquals(boundGpu({ SLURM_STEP_GPUS: "1" }), null);
});
