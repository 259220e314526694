// `hpctrain schedule` beside the runs that it foretells, files of the user's own, and plateaus on ranks.
import { assertSentence } from "../sentences.ts";
import { assert, assertAlmostEquals, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { join } from "paths";
import { eventsOf, inTemp, run, succeed } from "./program.ts";

/** Ten steps an epoch. */
const MLP = [
  ...["--data-type=synthetic", "--model=mlp", "--hidden-size=16", "--train-samples=80", "--val-samples=40"],
  ...["--global-batch-size=8", "--epochs=4", "--lr=0.01", "--optimizer=sgd"],
];
const RUN = [...MLP, "--device=cpu", "--threads=1", "--num-workers=0", "--log-interval=1", "--run-name=r"];

const FILES: Readonly<Record<string, string>> = {
  "half.ts": "export default (step: number, { total }: { total: number }): number => 1 - step / total / 2;\n",
  "rates.csv": "epoch,rate\n0,0.01\n2,0.002\n",
};

for (
  const [title, ...flags] of [
    ["stretches", "--scheduler=linear(start_factor=0.1) 8steps > cosine(eta_min=1e-5) 50% > constant"],
    ["one cycle", "--scheduler=onecycle(max_lr=0.1)"],
    ["epochs", "--scheduler=step(1, 0.5)", "--schedule-per=epoch"],
    ["a function in TypeScript", "--scheduler=half.ts", "--warmup=5steps"],
    ["a table", "--scheduler=table(rates.csv)"],
  ]
) {
  Deno.test(`schedule lists the rates of the run that follows: ${title}`, () =>
    inTemp(async (cwd) => {
      for (const [name, text] of Object.entries(FILES)) Deno.writeTextFileSync(join(cwd, name), text);
      const listed = JSON.parse((await succeed(["schedule", ...MLP, ...flags, "--json"], { cwd })).stdout);
      await succeed([...RUN, ...flags], { cwd });
      const taken = eventsOf(cwd, "r").filter(({ kind }) => kind === "step");
      assertEquals([listed.steps, listed.steps_per_epoch, taken.length], [40, 10, 40]);
      assertEquals(
        listed.rows.map(({ step, lr }: { step: number; lr: number }) => [step, lr]),
        taken.map(({ step, lr }) => [step, lr]),
      );
    }));
}

Deno.test("schedule draws the rate, and momentum and weight decay where these move", () =>
  inTemp(async (cwd) => {
    const flags = [
      "--scheduler=onecycle()",
      "--weight-decay=0.04",
      "--set=training.scheduler.weight_decay_end=0.4",
    ];
    const { stdout } = await succeed(["schedule", ...MLP, ...flags], { cwd });
    assertMatch(stdout, /^learning rate .*[^]*^momentum .*[^]*^weight decay /m);
    assertMatch(stdout, /^ +step +epoch +rate +momentum +weight decay$/m);
    assertMatch(stdout, /^ +40 +4\.00 +4\.000e-8 +0\.9500 +0\.39/m);
    const sizes = "--train-samples=50000 --batch-size=128 --epochs=90 --data-path=nowhere.npz".split(" ");
    assertMatch((await succeed(["schedule", ...sizes], { cwd })).stdout, /35190 steps in all/);
  }));

Deno.test("a run goes on with the function that it began with, and its checkpoint answers without", () =>
  inTemp(async (cwd) => {
    const file = join(cwd, "half.ts");
    Deno.writeTextFileSync(file, FILES["half.ts"]);
    await succeed([...RUN, "--scheduler=half.ts", "--epochs=2"], { cwd });
    const on = [...RUN.filter((flag) => !flag.startsWith("--epochs")), "--resume=checkpoints/r_latest.pt"];
    await succeed([...on, "--epochs=3"], { cwd });
    Deno.writeTextFileSync(file, "export default () => 1;\n");
    const { code, stderr } = await run([...on, "--epochs=4"], { cwd });
    assertEquals(code, 2);
    assertSentence("integration/schedule: function changed since", stderr);
    Deno.removeSync(file);
    await succeed(["eval", "checkpoints/r_latest.pt"], { cwd });
  }));

Deno.test("a schedule that can't be is refused before anything is written", () =>
  inTemp(async (cwd) => {
    for (const command of ["schedule", "train"]) {
      const { code, stderr } = await run([command, ...MLP, "--scheduler=cosine(eta_mni=1e-6)"], { cwd });
      assertEquals(code, 2);
      assertMatch(stderr, /Did you mean "eta_min"\?/);
    }
    assertEquals([...Deno.readDirSync(cwd)].length, 0);
  }));

Deno.test("two ranks fall at the same evaluations, and go on with the state of a checkpoint", () =>
  inTemp(async (cwd) => {
    const flags = [...RUN, "--batch-size=4", "--scheduler=plateau(patience=0, threshold=0.9, factor=0.5)"];
    const onTwo = (...more: string[]) => succeed(["launch", "-n", "2", "--", ...flags, ...more], { cwd });
    await onTwo();
    await onTwo("--run-name=half", "--epochs=2");
    await onTwo("--run-name=half", "--resume=checkpoints/half_latest.pt");
    const rates = (name: string) =>
      eventsOf(cwd, name).filter(({ kind }) => kind === "step").map(({ step, lr, loss }) => [step, lr, loss]);
    assert(new Set(rates("r").map(([, lr]) => lr)).size >= 3);
    assertEquals(rates("half"), rates("r"));
  }));

Deno.test("momentum moves in the parts of weights that two ranks share out", () =>
  inTemp(async (cwd) => {
    const flags = [...RUN, "--batch-size=4", "--scheduler=onecycle()", "--weight-decay=0.01"];
    const onTwo = (...more: string[]) => succeed(["launch", "-n", "2", "--", ...flags, ...more], { cwd });
    await onTwo();
    await onTwo("--zero=1", "--run-name=shared");
    await onTwo("--scheduler=onecycle(cycle_momentum=false)", "--run-name=still");
    const last = (name: string) => Number(eventsOf(cwd, name).findLast(({ kind }) => kind === "step")!.loss);
    assertAlmostEquals(last("shared"), last("r"), 1e-5);
    assertNotEquals(last("still"), last("r"));
  }));
