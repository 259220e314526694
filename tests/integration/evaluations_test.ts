// When the program evaluates: on ranks, after a kill, and what W&B, lists and words of other programs have of it.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { recordsOf } from "../core/outputs/wandb/runs.ts";
import { eventsOf, filesIn, finish, inTemp, run, start, succeed, until } from "./program.ts";

/** Ten steps an epoch on one rank or two. */
const MLP = [
  ...["--data-type=synthetic", "--model=mlp", "--hidden-size=16", "--dropout=0.2", "--train-samples=80"],
  ...["--val-samples=40", "--global-batch-size=8", "--lr=0.3", "--scheduler=constant", "--epochs=6"],
  ...["--device=cpu", "--threads=1", "--num-workers=0", "--log-interval=1", "--run-name=r"],
];

const of = (cwd: string, kind: string, field: string) =>
  eventsOf(cwd, "r").filter((event) => event.kind === kind).map((event) => [event.step, event[field]]);

/** On two ranks; a rank's batch is half of the step's. */
const onTwo = (cwd: string, more: string[]) =>
  succeed(["launch", "-n", "2", "--", ...MLP, "--batch-size=4", ...more], { cwd });

Deno.test("two ranks evaluate after the same steps, and train as they do without", () =>
  inTemp((plain) =>
    inTemp(async (often) => {
      await onTwo(plain, []);
      await onTwo(often, ["--eval-interval=4steps", "--eval-batches=3"]);
      const steps = of(often, "eval", "samples");
      assertEquals(steps.length, 15);
      assertEquals(new Set(steps.map(([, samples]) => samples)), new Set([12]));
      assertEquals(of(often, "step", "loss"), of(plain, "step", "loss"));
    })
  ));

Deno.test("where the clock says when to evaluate, the first of two ranks decides for both", () =>
  inTemp((plain) =>
    inTemp(async (often) => {
      await onTwo(plain, ["--epochs=30"]);
      await onTwo(often, ["--epochs=30", "--eval-interval=0.001s"]);
      const within = of(often, "eval", "samples").filter(([step]) => Number(step) % 10 > 0);
      assert(within.length > 0, `${within}`);
      assertEquals(of(often, "step", "loss"), of(plain, "step", "loss"));
    })
  ));

function stepIn(path: string): number {
  using file = openCheckpoint(path);
  file.verify();
  const own = (file.root as Map<string, Map<string, Map<string, number>>>).get("hpctrain")!;
  return own.get("cursor")!.get("step")!;
}

const best = (cwd: string) =>
  filesIn(join(cwd, "checkpoints")).filter((name) => name.startsWith("r_best")).map((name) => [
    name,
    stepIn(join(cwd, "checkpoints", name)),
  ]);

Deno.test("kill -9 again and again leaves the best checkpoints of a run that was never killed", () =>
  inTemp((whole) =>
    inTemp(async (killed) => {
      const flags = [
        ...MLP,
        "--keep-best=3",
        "--eval-interval=4steps",
        "--save-interval=3steps",
        "--epochs=20",
      ];
      await succeed(flags, { cwd: whole });
      for (const after of [10, 45, 100]) {
        const child = start([...flags, "--resume=auto"], { cwd: killed });
        const done = finish(child);
        await until("an evaluation", () =>
          eventsOf(killed, "r").some(({ kind, step }) => kind === "eval" && Number(step) >= after));
        child.kill("SIGKILL");
        await done;
      }
      await succeed([...flags, "--resume=auto"], { cwd: killed });
      assertEquals(best(killed), best(whole));
      assertEquals(best(whole).length, 3);
    })
  ));

Deno.test("W&B's rows have an evaluation at its own step, and its summary the best by what is monitored", () =>
  inTemp(async (cwd) => {
    await succeed([...MLP, "--eval-interval=4steps", "--monitor=r2"], { cwd });
    const folder = filesIn(join(cwd, "logs")).find((name) => name.endsWith(".wandb"))!;
    const records = recordsOf(join(cwd, "logs", folder));
    const rows = new Map<number, string>();
    const summary = new Map<string, string>();
    for (const record of records) {
      if (record.kind === "history") {
        const row = new Map(record.items.map(({ key, json }) => [key.join("."), json]));
        if (row.has("val/r2")) rows.set(Number(row.get("_step")), row.get("val/r2")!);
      }
      if (record.kind === "summary") {
        record.update.forEach(({ key, json }) => summary.set(key.join("."), json));
      }
    }
    const evaluations = eventsOf(cwd, "r").filter(({ kind }) => kind === "eval");
    assertEquals([...rows.keys()], evaluations.map(({ step }) => Number(step)));
    const most = evaluations.reduce((a, b) => value(b) > value(a) ? b : a);
    assertEquals(
      [summary.get("best/monitor"), summary.get("best/step"), Number(summary.get("best/r2")).toPrecision(5)],
      ['"r2"', String(most.step), value(most).toPrecision(5)],
    );
    const [row] = JSON.parse((await succeed(["runs", "logs", "--json"], { cwd })).stdout).runs ?? [];
    assertEquals([row.metric, row.best, row.best_step], ["r2", value(most), most.step]);
  }));

const value = (event: Record<string, unknown>) => (event.metrics as Record<string, number>).r2;

Deno.test("words of Lightning and Hugging Face are taken, or say what is written instead", () =>
  inTemp(async (cwd) => {
    const taken = [
      "--check-val-every-n-epoch=3",
      "--limit-val-batches=2",
      "--save-top-k=2",
      "--metric-for-best-model=r2",
    ];
    await succeed([...MLP, "--batch-size=8", ...taken], { cwd });
    assertEquals(of(cwd, "eval", "samples"), [[30, 16], [60, 16]]);
    assertEquals(best(cwd).length, 2);
    for (const flag of ["--eval-steps=500", "--val-check-interval=0.25", "--save-total-limit=2"]) {
      const { code, stderr } = await run([...MLP, flag], { cwd });
      assertEquals(code, 2, flag);
      assertMatch(stderr, /--(eval-interval|keep-best)/);
    }
  }));
