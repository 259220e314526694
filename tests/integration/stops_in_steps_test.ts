// Requests to stop that come within a step, and while ranks wait for data that does not come: heard all the same, by every
// rank, at the same place.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { openMpi } from "../mpi.ts";
import { goodFiles, lay } from "./formats.ts";
import { eventsOf, finish, inTemp, start, TINY, until } from "./program.ts";
import { startJob } from "./rank_processes.ts";
import { numbers, tensors, trained } from "./ranks.ts";

const STOPPED = 75;
const steps = (cwd: string) => eventsOf(cwd, "r").filter(({ kind }) => kind === "step").length;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

Deno.test("Ctrl-C is heard between two micro-batches, and the step is left", () =>
  inTemp(async (cwd) => {
    const flags = [ // one step of minutes
      ...["--model=gpt", "--layers=4", "--embed=128", "--context=128", "--val-samples=0", "--epochs=2"],
      ...["--train-samples=32000", "--batch-size=4", "--grad-accum=8000", "--threads=1", "--device=cpu"],
    ];
    const child = start(["train", ...flags, "--run-name=r"], { cwd });
    await until("the run has begun", () => eventsOf(cwd, "r").some(({ kind }) => kind === "run"));
    await pause(2000);
    child.kill("SIGINT");
    const { code, stdout, stderr } = await finish(child, 60);
    assertEquals(code, STOPPED, stdout + stderr);
    assertMatch(stdout, /^Step 1 is left in the middle, and will be done again\.$/m);
    assertMatch(stderr, /Ctrl-C: stopping after a save/);
    assertEquals(steps(cwd), 0);
  }));

for (
  const [what, stops, flags] of [
    ["gpt", 4, [
      "--model=gpt",
      "--layers=1",
      "--embed=32",
      "--context=32",
      "--dropout=0.1",
      "--train-samples=1000",
    ]],
    ["batch norm over all ranks", 1, [
      ...[
        "--model=cosmo-cnn",
        "--set=model.width=4",
        "--data-type=synthetic",
        "--sync-bn",
        "--train-samples=260",
      ],
    ]],
  ] as const
) {
  Deno.test(`two ranks that are stopped within their steps end with the bits of an undisturbed run (${what})`, () =>
    inTemp(async (cwd) => {
      const all = [
        ...[...flags, "--threads=1", "--val-samples=8", "--epochs=1", "--ema=0.9"],
        ...["--batch-size=2", "--grad-accum=12"],
      ];
      const mpi = openMpi();
      await trained(cwd, "whole", 2, all, { mpi });
      let within = 0;
      for (let attempt = 0;; attempt++) {
        const job = startJob([...all, ...attempt > 0 ? ["--resume=auto"] : []], { cwd, mpi, ranks: 2 });
        const before = steps(cwd);
        if (attempt < stops) {
          await job.until("another step", () => steps(cwd) > before);
          job.kill(attempt % 2, "SIGUSR1");
        }
        const { code, stdout, stderr } = await job.end(performance.now());
        if (/is left in the middle/.test(stdout)) within++;
        if (code === 0) break;
        assertEquals(code, STOPPED, stdout + stderr);
      }
      assert(within > 0, "no stop was within a step");
      assertEquals(numbers(cwd, "r"), numbers(cwd, "whole"));
      assertEquals(tensors(cwd, "r"), tensors(cwd, "whole"));
    }));
}

Deno.test("two ranks, one of which waits for data that never comes, stop when they are asked", async () => {
  const good = await goodFiles("images");
  await inTemp(async (cwd) => {
    lay(good, cwd);
    const flags = [
      ...[...TINY, "--model=mlp", "--hidden-size=8", "--in-memory=no", "--data-path=images"],
      ...["--num-workers=1", "--epochs=100000", "--val-samples=16", "--batch-size=4"],
    ];
    const job = startJob(flags, { cwd, mpi: openMpi(), ranks: 2 });
    await job.until("some steps", () => steps(cwd) > 5);
    for (let i = 0; i < 3; i++) hang(join(cwd, `images/dog/${String(i).padStart(2, "0")}.jpg`));
    let last = -1;
    await job.until("no more steps", () => {
      const now = steps(cwd), same = now === last;
      last = now;
      if (!same) stillSince = performance.now();
      return performance.now() - stillSince > 3000;
    });
    Deno.writeTextFileSync(join(cwd, "logs/r/STOP"), "");
    const { code, stdout, stderr } = await job.end(performance.now());
    assertEquals(code, STOPPED, stdout + stderr);
    assertMatch(stdout, /Stopped on request \(the file STOP\)/);
  });
});

let stillSince = 0;

/** Whoever opens it waits for ever. At no moment it is not there. */
function hang(path: string): void {
  const { success } = new Deno.Command("mkfifo", { args: [`${path}.fifo`] }).outputSync();
  assert(success);
  Deno.renameSync(`${path}.fifo`, path);
}
