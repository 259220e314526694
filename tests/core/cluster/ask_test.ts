// What squeue and qstat say of a job, as recorded.
import { assertEquals } from "@std/assert";
import { jobState, ofQstat, ofSacct, ofScontrol, ofSqueue, withJob } from "../../../core/cluster/jobs.ts";
import { assertSentence } from "../../sentences.ts";

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
    over: false,
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
  assertEquals((await jobState("17", answer(QSTAT)))?.state, "R");
  assertEquals(asked, ["squeue", "scontrol", "sacct", "qstat"]);
  assertEquals(await jobState("17", answer(null)), null);
});

const ENDED =
  "JobId=17 JobName=run JobState=CANCELLED Reason=None ExitCode=0:15 EndTime=2026-11-22T01:02:03 StdOut=/u/logs/slurm/run_17.out";

Deno.test("scontrol and sacct know a job that has ended, and how", () => {
  assertEquals(ofScontrol(ENDED), {
    ...{ state: "CANCELLED", over: true, left: null, why: "signal 15, at 2026-11-22 01:02:03" },
    output: "/u/logs/slurm/run_17.out",
  });
  const { state, over, why } = ofSacct("FAILED|2:0|2026-11-22T01:00:00\n")!;
  assertEquals([state, over, why], ["FAILED", true, "exit code 2, at 2026-11-22 01:00:00"]);
  assertEquals(ofScontrol("JobId=17 JobState=PENDING Reason=BeginTime")?.over, false);
  for (const nothing of [null, "", "slurm_load_jobs error: Invalid job id specified"]) {
    assertEquals([ofScontrol(nothing), ofSacct(nothing)], [null, null]);
  }
  assertEquals(ofQstat(QSTAT.replace("= R", "= F"))?.over, true);
});

Deno.test("a run whose job has ended does not come back, and one that has ended by itself is left alone", async () => {
  const requeued = { state: "requeued", why: "Stopped on request" } as const;
  const stopped = await withJob(requeued, "17", ofScontrol(ENDED));
  assertEquals(stopped.state, "stopped");
  assertSentence("core/cluster/ask: stopped request job", stopped.why);
  assertEquals((await withJob({ state: "running", why: "x" }, "17", ofScontrol(ENDED))).state, "gone");
  const waits = ofSqueue("PENDING|1:00:00|(BeginTime)");
  assertEquals(await withJob(requeued, "17", waits), requeued);
  const done = { state: "done", why: "Finished" } as const;
  assertEquals(await withJob(done, "17", ofScontrol(ENDED)), done);
});
