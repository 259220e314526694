// How a command that goes on starts as many ranks again, by what started them.
import { assertEquals } from "@std/assert";
import { shellLine } from "../../../core/base/shell.ts";
import { startedBy } from "../../../core/train/summary.ts";

type Ranks = Parameters<typeof startedBy>[0];

const words = (ranks: Partial<Ranks>, env: Record<string, string> = {}, device: "cpu" | "cuda" = "cpu") => {
  const whole = { world: 1, nodes: 1, localWorld: 1, launcher: "alone", ...ranks } as Ranks;
  const { before, command, behind } = startedBy(whole, device, env);
  return [...before, "hpctrain", ...command, "FLAGS", ...behind].join(" ");
};

Deno.test("one process is started as it was, ranks of one host by launch, of several by what started them", () => {
  assertEquals(words({}), "hpctrain FLAGS");
  assertEquals(words({ world: 4, localWorld: 4, launcher: "openmpi" }), "hpctrain launch -n 4 -- FLAGS");
  assertEquals(words({ world: 4, localWorld: 4, launcher: "flags" }), "hpctrain launch -n 4 -- FLAGS");
  assertEquals(
    words({ world: 8, nodes: 2, localWorld: 4, launcher: "slurm" }),
    "srun -N 2 -n 8 hpctrain FLAGS",
  );
  assertEquals(words({ world: 8, nodes: 2, localWorld: 4, launcher: "mpich" }), "mpirun -n 8 hpctrain FLAGS");
});

Deno.test("a batch job's lines are read where nothing is trained: they submit another", () => {
  const slurm = { ENVIRONMENT: "BATCH", SLURM_JOB_ID: "7", SLURM_JOB_PARTITION: "gpu" };
  const many = { world: 8, nodes: 2, localWorld: 4, launcher: "slurm" } as const;
  assertEquals(
    words(many, slurm, "cuda"),
    "hpctrain sbatch FLAGS --nodes 2 --gpus-per-node 4 --partition gpu --submit",
  );
  assertEquals(
    words(many, { ...slurm, SLURM_CPUS_PER_TASK: "6" }, "cuda"),
    "hpctrain sbatch FLAGS --nodes 2 --gpus-per-node 4 --cpus-per-task 6 --partition gpu --submit",
  );
  assertEquals(
    words(many, { PBS_ENVIRONMENT: "PBS_BATCH" }),
    "hpctrain qsub FLAGS --nodes 2 --ntasks-per-node 4 --submit",
  );
  assertEquals(words({}, slurm), "hpctrain sbatch FLAGS --nodes 1 --partition gpu --submit");
  assertEquals(
    words(many, { SLURM_JOB_ID: "7" }),
    "srun -N 2 -n 8 hpctrain FLAGS",
    "in a shell of an allocation",
  );
});

Deno.test("a job that was made here goes on by the line that made it, with what changed", () => {
  const flags = [
    "--time",
    "04:00:00",
    "--cpus-per-task",
    "6",
    "--err-file",
    "--signal=USR1@60",
    "--env=A=b c",
  ];
  const slurm = {
    ...{ ENVIRONMENT: "BATCH", SLURM_JOB_ID: "7", SLURM_JOB_PARTITION: "gpu", SLURM_CPUS_PER_TASK: "6" },
    HPCTRAIN_JOB: JSON.stringify({ flags, nodes: 2, ranks: 4 }),
  };
  const many = { world: 8, nodes: 2, localWorld: 4, launcher: "slurm" } as const;
  const began = `hpctrain sbatch ${flags.join(" ")} FLAGS`;
  assertEquals(words(many, slurm, "cuda"), `${began} --submit`);
  assertEquals(words({ ...many, nodes: 3, world: 12 }, slurm, "cuda"), `${began} --nodes 3 --submit`);
  assertEquals(words({ ...many, localWorld: 2 }, slurm), `${began} --ntasks-per-node 2 --submit`);
  const pbs = { PBS_ENVIRONMENT: "PBS_BATCH", HPCTRAIN_JOB: slurm.HPCTRAIN_JOB };
  assertEquals(words(many, pbs), `hpctrain qsub ${flags.join(" ")} FLAGS --submit`);
});

Deno.test("words reach a shell as they are", async () => {
  const odd = ["a b", "it's", "$HOME", "*", "~", "", "x=1", "é", "-n", "`id`", "!1", "a\nb"];
  const { stdout } = await new Deno.Command("bash", { args: ["-c", `printf '%s\\0' ${shellLine(odd)}`] })
    .output();
  assertEquals(new TextDecoder().decode(stdout).split("\0").slice(0, -1), odd);
});
