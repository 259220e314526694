import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { gatherScheduler, judgeScheduler } from "../../../../core/cluster/doctor/job.ts";
import { inTemp } from "../../../integration/program.ts";

/** A folder of programs that print what real ones do. */
function programs(folder: string, texts: Record<string, string>): Record<string, string> {
  for (const [name, text] of Object.entries(texts)) {
    Deno.writeTextFileSync(join(folder, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  }
  return { PATH: folder };
}

Deno.test("SLURM is found with its version, and its controller answers", () =>
  inTemp(async (folder) => {
    const env = programs(folder, {
      sbatch: "echo slurm-wlm 22.05.8",
      scontrol: "echo 'Slurmctld(primary) at head is UP'",
    });
    const facts = await gatherScheduler({ ...env, SLURM_JOB_ID: "17" });
    assertEquals([facts.name, facts.version, facts.answers, facts.job], ["SLURM", "22.05.8", true, "17"]);
    assertEquals(judgeScheduler(facts)[0].said, "SLURM 22.05.8, in job 17");
  }));

Deno.test("a controller that is down, or hangs, is a warning within seconds", () =>
  inTemp(async (folder) => {
    const env = programs(folder, { sbatch: "echo slurm 24.05.1", scontrol: "exec sleep 60" });
    const began = performance.now();
    const facts = await gatherScheduler({ PATH: `${env.PATH}:/usr/bin:/bin` });
    assertEquals(facts.answers, false);
    assertEquals(performance.now() - began < 30_000, true);
    const [line] = judgeScheduler(facts);
    assertEquals(line.state, "warn");
    assertMatch(line.fix!, /scontrol ping/);
  }));

Deno.test("doctor finds PBS and its version by qsub in PATH", () =>
  inTemp(async (folder) => {
    const facts = await gatherScheduler(
      programs(folder, { qsub: "echo pbs_version = 23.06.06", qstat: "echo Server" }),
    );
    assertEquals([facts.name, facts.version, facts.answers], ["PBS", "23.06.06", true]);
  }));

Deno.test("inside a job whose programs are not on PATH, as in a container, a run can't ask for the time left", async () => {
  const [line] = judgeScheduler(await gatherScheduler({ PATH: "", SLURM_JOB_ID: "3" }));
  assertEquals(line.state, "warn");
  assertMatch(line.said, /can't ask how much time is left/);
});

Deno.test("no scheduler is nothing wrong", async () => {
  assertEquals(judgeScheduler(await gatherScheduler({ PATH: "" }))[0].state, "good");
});
