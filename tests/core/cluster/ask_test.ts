// What squeue and qstat say of a job, as recorded.
import { assertEquals } from "@std/assert";
import { ofQstat, ofSqueue, stateOf } from "../../../core/cluster/jobs.ts";

const QSTAT = `Job Id: 17.server
    Job_Name = run
    job_state = R
    comment = Job run at Sun Nov 22 at 01:00 on (node1:ncpus=4)+(node2:
\tncpus=4)
    Output_Path = server:/home/u/logs/pbs/run.o17
`;

Deno.test("squeue's line is a state, the time left and where it runs or why it waits", () => {
  assertEquals(ofSqueue("RUNNING|59:02|node[1-2]\n"), {
    state: "RUNNING",
    left: "59:02",
    why: "node[1-2]",
    output: null,
  });
  assertEquals(ofSqueue("PENDING|1:00:00|(Resources)\n")?.why, "(Resources)");
  assertEquals(ofSqueue("PENDING|INVALID|(None)\n")?.left, null);
  for (const nothing of [null, "", "slurm_load_jobs error: Invalid job id specified"]) {
    assertEquals(ofSqueue(nothing), null);
  }
});

Deno.test("qstat's fields are read across its broken lines", () => {
  const state = ofQstat(QSTAT);
  assertEquals(state?.state, "R");
  assertEquals(state?.why, "Job run at Sun Nov 22 at 01:00 on (node1:ncpus=4)+(node2:ncpus=4)");
  assertEquals(ofQstat("qstat: Unknown Job Id 99"), null);
});

Deno.test("SLURM is asked first, then PBS, and a job that neither knows has no state", async () => {
  const asked: string[] = [];
  const answer = (text: string | null) => ([program]: readonly string[]) => {
    asked.push(program);
    return Promise.resolve(program === "qstat" ? text : null);
  };
  assertEquals((await stateOf("17", answer(QSTAT)))?.state, "R");
  assertEquals(asked, ["squeue", "qstat"]);
  assertEquals(await stateOf("17", answer(null)), null);
});
