// Whether a job was started again, by what each scheduler says, and which run is its own.
import { assertEquals } from "@std/assert";
import { join } from "paths";
import { goesBack, requeuedIn, runOfJob } from "../../../core/train/restart.ts";
import { jobIn } from "../../../core/ranks/job/scheduler.ts";
import { inFolder } from "../checkpoint/python.ts";
import { settings } from "./rig.ts";

const never = () => Promise.reject(new Error("nobody was to be asked"));

Deno.test("SLURM's environment tells restarts, and its first run has no number", async () => {
  const of = async (env: Record<string, string>) => (await requeuedIn(env, never))?.restarts ?? null;
  assertEquals(await of({}), null);
  assertEquals(await of({ SLURM_JOB_ID: "17" }), null);
  assertEquals(await of({ SLURM_JOB_ID: "17", SLURM_RESTART_COUNT: "0" }), null);
  assertEquals(await of({ SLURM_JOB_ID: "17", SLURM_RESTART_COUNT: "3" }), 3);
});

Deno.test("PBS is asked how often it ran the job; without an answer it is the first time", async () => {
  const of = async (answer: string | null) =>
    (await requeuedIn({ PBS_JOBID: "42" }, () => Promise.resolve(answer)))?.restarts ?? null;
  assertEquals(await of("    run_count = 1\n"), null);
  assertEquals(await of("    run_count = 3\n"), 2);
  assertEquals(await of(null), null);
});

Deno.test("a stopped run goes back to the queue where its script does that, unless a person stopped it or it was too often", () => {
  const script = { HPCTRAIN_ENDED: "/tmp/ended" }, stopped = { stopped: true, byHand: false };
  assertEquals(goesBack(script, stopped, 100), true);
  assertEquals(goesBack({}, stopped, 100), false);
  assertEquals(goesBack(script, { stopped: true, byHand: true }, 100), false);
  assertEquals(goesBack(script, { stopped: false, byHand: false }, 100), false);
  assertEquals(goesBack({ ...script, SLURM_RESTART_COUNT: "2" }, stopped, 3), true);
  assertEquals(goesBack({ ...script, SLURM_RESTART_COUNT: "3" }, stopped, 3), false);
  assertEquals(goesBack({ ...script, HPCTRAIN_RESTARTS: "3" }, stopped, 3), false);
});

Deno.test(
  "a job's run is the newest that it has trained and that this command could have begun",
  inFolder((folder) => {
    const trained = (run: string, ...attempts: [job: string | null, seen: number][]) => {
      Deno.mkdirSync(join(folder, "logs", run), { recursive: true });
      const all = attempts.map(([job_id, last_seen], i) => ({
        ...{ attempt: i + 1, host: "node1", job_id, ranks: 1, pid: 1, started: 1, resumed_from: null },
        ...{ first_step: 1, last_step: 2, first_step_at: 1, last_seen, ended: null },
        lost: { restart_s: 0, save_stall_s: 0, redone_steps: 0, redone_s: 0 },
      }));
      const lineage = { version: 1, run, parent: null, goodput_percent: null, attempts: all };
      Deno.writeTextFileSync(join(folder, "logs", run, "lineage.json"), JSON.stringify(lineage));
    };
    trained("a", ["17", 10]);
    trained("a-2", [null, 5], ["17", 20]);
    trained("a-3", ["18", 30]);
    trained("b", ["17", 40]);
    Deno.mkdirSync(join(folder, "logs/a-4"));
    Deno.writeTextFileSync(join(folder, "logs/a-4/lineage.json"), "cut off");
    const config = settings("--save-dir", folder, "--run-name", "a");
    const of = (id: string) => runOfJob(config, null, jobIn({ SLURM_JOB_ID: id })!);
    assertEquals([of("17"), of("18"), of("19")], ["a-2", "a-3", null]);
    const elsewhere = settings("--save-dir", join(folder, "none"), "--run-name", "a");
    assertEquals(runOfJob(elsewhere, null, jobIn({ SLURM_JOB_ID: "17" })!), null);
  }),
);
