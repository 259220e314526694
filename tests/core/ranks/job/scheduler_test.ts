// What schedulers say of a job's time, as they say it.
import { assertEquals } from "@std/assert";
import {
  endIn,
  jobIn,
  jobStarts,
  questionFor,
  readAnswer,
  secondsOf,
} from "../../../../core/ranks/job/scheduler.ts";

const slurm = jobIn({ SLURM_JOB_ID: "17" })!;
const pbs = jobIn({ PBS_JOBID: "42.head" })!;

Deno.test("a job is known by its scheduler's number, and the question is about it alone", () => {
  assertEquals([slurm.called, pbs.called, jobIn({ SLURM_JOB_ID: "" }), jobIn({})], [
    "SLURM job 17",
    "PBS job 42.head",
    null,
    null,
  ]);
  assertEquals(questionFor(slurm), ["squeue", "--noheader", "--jobs", "17", "--format", "%L %l"]);
  assertEquals(questionFor(pbs), ["qstat", "-f", "42.head"]);
});

Deno.test("times are read in every form that schedulers write", () => {
  const forms: [string, number | null][] = [
    ["5", 5],
    ["0:07", 7],
    ["59:02", 59 * 60 + 2],
    ["10:00:00", 36000],
    ["1-02:03:04", 93784],
    ["2-00", 172800],
    ["UNLIMITED", Infinity],
    ["INVALID", null],
    ["NOT_SET", null],
    ["", null],
  ];
  for (const [text, seconds] of forms) assertEquals(secondsOf(text), seconds, text);
});

Deno.test("squeue's answer gives what is left and what there was; an answer that says nothing is none", () => {
  assertEquals(readAnswer(slurm, "59:02 1:00:00\n"), { left: 3542, limit: 3600 });
  assertEquals(readAnswer(slurm, "UNLIMITED UNLIMITED\n"), { left: Infinity, limit: Infinity });
  assertEquals(readAnswer(slurm, "3:00 INVALID"), { left: 180, limit: null });
  for (const text of ["", "\n", "INVALID 1:00", "slurm_load_jobs error: Invalid job id specified"]) {
    assertEquals(readAnswer(slurm, text), null, text);
  }
});

const QSTAT = `Job Id: 42.head
    Job_Name = train
    resources_used.cput = 00:30:00
    resources_used.walltime = 00:10:30
    job_state = R
    Resource_List.ncpus = 8
    Resource_List.walltime = 01:00:00
    Variable_List = PBS_O_HOME=/home/u,PBS_O_PATH=/usr/bin:/bin,
\tresources_used.walltime = 09:00:00
    run_count = 2
`;

Deno.test("qstat's answer gives walltime less what was used, and how often the job was started", () => {
  assertEquals(readAnswer(pbs, QSTAT), { left: 2970, limit: 3600 });
  assertEquals(readAnswer(pbs, QSTAT.replace(/.*used\\.walltime = 00.*\n/, "")), { left: 2970, limit: 3600 });
  assertEquals(readAnswer(pbs, "Resource_List.walltime = 00:05:00\n"), { left: 300, limit: 300 });
  assertEquals(readAnswer(pbs, "qstat: Unknown Job Id 42.head"), null);
  assertEquals([jobStarts(QSTAT), jobStarts("start_count = 1\n"), jobStarts("job_state = R\n")], [
    2,
    1,
    null,
  ]);
});

Deno.test("the environment tells the end where the scheduler's programs are missing", () => {
  const times = { SLURM_JOB_START_TIME: "1000", SLURM_JOB_END_TIME: "4600" };
  assertEquals(endIn(times, 0, 1600), { left: 3000, limit: 3600 });
  assertEquals(endIn({ SLURM_JOB_END_TIME: "4600" }, 0, 1600), { left: 3000, limit: null });
  assertEquals(endIn({ PBS_WALLTIME: "600" }, 100, 150), { left: 550, limit: 600 });
  assertEquals(endIn({ SLURM_JOB_END_TIME: "soon" }, 0, 0), null);
});
