// What flags do to a whole run: limits, saves, optimizers, schedules, batches, precision, every model of the zoo.
import { assert, assertAlmostEquals, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { join } from "paths";
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import type { Value } from "../../core/checkpoint/value.ts";
import { MODELS } from "../../core/models/registry.ts";
import { OPTIMIZER_READS } from "../../core/settings/sections/optimizer.ts";
import { eventsOf, filesIn, inTemp, type Result, succeed, TINY } from "./program.ts";
import { assertSentence } from "../sentences.ts";

/** Runs in a folder of its own and looks at what came of it. */
async function after(
  flags: string[],
  look: (events: ReturnType<typeof eventsOf>, cwd: string, result: Result) => void | Promise<void>,
): Promise<void> {
  await inTemp(async (cwd) => {
    const result = await succeed([...TINY, "--run-name=r", "--log-interval=1", ...flags], { cwd });
    await look(eventsOf(cwd, "r"), cwd, result);
  });
}

const of = (kind: string, events: ReturnType<typeof eventsOf>) => events.filter((e) => e.kind === kind);
const losses = (events: ReturnType<typeof eventsOf>) => of("step", events).map(({ loss }) => loss as number);
const rates = (events: ReturnType<typeof eventsOf>) => of("step", events).map(({ lr }) => lr as number);

const known = new Map<string, number[]>();

/** Runs with these flags once: that a run can be repeated to the last bit is a test of its own. */
async function lossesWith(...flags: string[]): Promise<number[]> {
  const found = known.get(flags.join(" ")) ?? await freshLosses(...flags);
  known.set(flags.join(" "), found);
  return found;
}

async function freshLosses(...flags: string[]): Promise<number[]> {
  let found: number[] = [];
  await after(flags, (events) => void (found = losses(events)));
  return found;
}

Deno.test("--max-steps ends a run in the middle of an epoch, with an evaluation and a save", () =>
  after(["--max-steps=3", "--epochs=9"], (events, _, { stdout }) => {
    assertEquals(of("step", events).map(({ step }) => step), [1, 2, 3]);
    assertEquals([of("eval", events).length, of("save", events).length], [1, 1]);
    assertMatch(stdout, /^Reached --max-steps 3 after /m);
    assertMatch(stdout, /train on .*--resume checkpoints\/r_latest\.pt --max-steps 6$/m);
  }));

Deno.test("--save-interval saves that often, besides at the end of each epoch", () =>
  after(["--save-interval=5steps", "--epochs=3"], (events) => {
    const saves = of("save", events);
    assertEquals(saves.filter(({ reason }) => reason !== "interval").map(({ step }) => step), [4, 8, 12]);
    // Steps as short as these are over before the last save is written: then the next is left out, and that is told.
    const others = [...saves.filter(({ reason }) => reason === "interval"), ...of("warning", events)];
    assertEquals(others.map(({ step }) => step).sort((a, b) => Number(a) - Number(b)), [5, 10]);
  }));

const epochsOf = (run: string, ...epochs: number[]) => epochs.map((epoch) => `${run}_epoch_${epoch}.pt`);

Deno.test("a preset for clusters keeps each epoch's checkpoint of each run", () =>
  after(["--preset=cpu-cluster", "--any-layout", "--epochs=2"], async (_, cwd) => {
    const folder = join(cwd, "checkpoints"), links = epochsOf("checkpoint", 1, 2), own = epochsOf("r", 1, 2);
    assertEquals(filesIn(folder), [...links, "r_best.pt", ...own, "r_latest.pt"]);
    const before = own.map((name) => Deno.statSync(join(folder, name)).ino);
    const flags = [...TINY, "--preset=cpu-cluster", "--any-layout", "--epochs=2", "--run-name=other"];
    await succeed(flags, { cwd });
    assertEquals(own.map((name) => Deno.statSync(join(folder, name)).ino), before);
    assertEquals(links.map((name) => Deno.readLinkSync(join(folder, name))), own);
    assertEquals(filesIn(folder).filter((name) => name.startsWith("other_epoch")), epochsOf("other", 1, 2));
  }));

Deno.test("--save-every-epoch --keep-last 2 keeps the last two epochs, the latest and the best", () =>
  after(["--save-every-epoch", "--keep-last=2", "--epochs=4"], (_, cwd) => {
    assertEquals(filesIn(join(cwd, "checkpoints")), [
      ...epochsOf("checkpoint", 3, 4),
      "r_best.pt",
      ...epochsOf("r", 3, 4),
      "r_latest.pt",
    ]);
    for (const epoch of [3, 4]) {
      for (const name of [...epochsOf("checkpoint", epoch), ...epochsOf("r", epoch)]) {
        using file = openCheckpoint(join(cwd, "checkpoints", name));
        assertEquals((file.root as Map<string, Value>).get("epoch"), epoch);
      }
    }
  }));

Deno.test("a second run under the same name writes beside the first, not over it", () =>
  inTemp(async (cwd) => {
    const args = [...TINY, "--run-name=r"];
    await succeed(args, { cwd });
    const first = Deno.readFileSync(join(cwd, "checkpoints/r_latest.pt"));
    const { stdout } = await succeed([...args, "--seed=1"], { cwd });
    assertMatch(stdout, /^Run r-2: logs\/r-2$/m);
    assertEquals(Deno.readFileSync(join(cwd, "checkpoints/r_latest.pt")), first);
    assertEquals(filesIn(join(cwd, "checkpoints")).filter((name) => name.startsWith("r-2_")).length, 2);
  }));

Deno.test("--early-stopping-patience ends a run that gets no better", () =>
  after(["--early-stopping-patience=2", "--epochs=50", "--lr=0"], (events, _, { stdout }) => {
    assertEquals(of("epoch", events).length, 3);
    assertMatch(stdout, /^Stopped early \(no better validation loss for 2 epochs\) after /m);
  }));

Deno.test("--ema evaluates the averaged weights, saves them beside the others, and eval agrees", () =>
  after(["--ema=0.9", "--epochs=2", "--lr=0.05"], async (events, cwd) => {
    using file = openCheckpoint(join(cwd, "checkpoints/r_latest.pt"));
    const own = (file.root as Map<string, Value>).get("hpctrain") as Map<string, Value>;
    assertEquals((own.get("ema_state_dict") as Map<string, Value>).size, 6);
    const { stdout } = await succeed(["eval", "checkpoints/r_latest.pt", "--json", "--threads=1"], { cwd });
    const { val_loss, averaged } = JSON.parse(stdout);
    assertEquals([val_loss, averaged], [of("eval", events).at(-1)!.val_loss, true]);
    const plain = await lossesWith("--epochs=2", "--lr=0.05");
    assertEquals(losses(events), plain, "averaging changes nothing in training itself");
  }));

Deno.test("--clip-norm shortens the gradient, and the norm before is what is told", async () => {
  const sgd = ["--optimizer=sgd", "--momentum=0", "--weight-decay=0", "--scheduler=constant", "--lr=1"];
  const still = await lossesWith(...sgd, "--lr=0");
  assertNotEquals(await lossesWith(...sgd), still);
  await after([...sgd, "--clip-norm=1e-6"], (events) => {
    losses(events).forEach((loss, i) =>
      assertAlmostEquals(loss, still[i], 1e-4, "a step of 1e-6 changes little")
    );
    for (const { grad_norm } of of("step", events)) assert((grad_norm as number) > 1e-3);
  });
});

Deno.test("--amp bf16 on a CPU computes in it: near the losses of fp32, yet not the same", async () => {
  const [half, full] = [await lossesWith("--amp=bf16"), await lossesWith()];
  assertNotEquals(half, full);
  half.forEach((loss, i) => assertAlmostEquals(loss, full[i], 0.02 * full[i]));
});

Deno.test("--gradient-checkpointing gives the same losses to the last bit, with dropout on", async () => {
  const flags = ["--dropout=0.3", "--epochs=2"];
  assertEquals(await lossesWith(...flags, "--gradient-checkpointing"), await lossesWith(...flags));
});

/** Rates with which 20 epochs bring the loss down, where that is not 0.01. */
const OWN_RATES: Readonly<Record<string, number>> = {
  sgd: 0.05,
  asgd: 0.05,
  adadelta: 1,
  rprop: 0.001,
  prodigy: 1,
};

for (const optimizer of Object.keys(OPTIMIZER_READS)) {
  Deno.test(`--optimizer ${optimizer} begins at the same loss and brings it down`, async () => {
    const flags = [`--optimizer=${optimizer}`, `--lr=${OWN_RATES[optimizer] ?? 0.01}`, "--epochs=20"];
    const found = await lossesWith(
      ...flags,
      ...(optimizer === "schedule_free" ? ["--scheduler=constant"] : []),
    );
    assertEquals(found[0], (await lossesWith("--lr=0", "--max-steps=1"))[0]);
    const mean = (values: number[]) => values.reduce((a, b) => a + b) / values.length;
    assert(
      mean(found.slice(-4)) < 0.9 * mean(found.slice(0, 4)),
      `${found.slice(0, 4)} ... ${found.slice(-4)}`,
    );
  });
}

// What each schedule does with a peak of 1 over 8 steps, by its definition.
const schedules: [flags: string[], expected: (step: number) => number][] = [
  [["constant"], () => 1],
  [["cosine"], (step) => (1 + Math.cos(Math.PI * step / 8)) / 2],
  [["linear"], (step) => 1 - step / 8],
  [["step", "--set=training.scheduler.step_size=1"], (step) => step < 4 ? 1 : 0.1],
  [["constant", "--warmup=4steps"], (step) => Math.min(1, (step + 1) / 4)],
];
for (const [[type, ...more], expected] of schedules) {
  Deno.test(`--scheduler ${[type, ...more].join(" ")} moves the learning rate as it should`, () =>
    after([`--scheduler=${type}`, ...more, "--lr=1e-3", "--epochs=2"], (events) => {
      rates(events).forEach((rate, i) => assertAlmostEquals(rate / 1e-3, expected(i), 1e-6, `step ${i + 1}`));
    }));
}

Deno.test("--scheduler onecycle rises to the peak and falls far below where it began", () =>
  after(["--scheduler=onecycle", "--lr=1e-3", "--epochs=5"], (events) => {
    const found = rates(events), peak = Math.max(...found);
    assertAlmostEquals(peak, 1e-3, 1e-4);
    assert(found[0] < peak / 10 && found.at(-1)! < found[0] && found.indexOf(peak) > 2, found.join(" "));
  }));

Deno.test("--global-batch-size derives the accumulation, and the losses are those of one big batch", async () => {
  const big = await lossesWith("--batch-size=32", "--epochs=2");
  await after(["--batch-size=8", "--global-batch-size=32", "--epochs=2"], (events, _, { stdout }) => {
    assertMatch(stdout, /^Batch: 8 x 1 rank x 4 accumulated = 32 samples a step, 2 steps an epoch\./m);
    losses(events).forEach((loss, i) => assertAlmostEquals(loss, big[i], 1e-5));
    assertEquals(losses(events).length, big.length);
  });
});

Deno.test("--lr-scaling linear multiplies the learning rate by batch / base batch", () =>
  after(
    ["--lr-scaling=linear", "--lr=1e-3", "--scheduler=constant", "--save-interval=50"],
    (events, _, { stdout }) => {
      for (const rate of rates(events)) assertAlmostEquals(rate, 1e-3 * 16 / 64, 1e-12);
      assertSentence("integration/options: epoch learning rate", stdout);
      assertSentence("integration/options: training save_interval save-interval", stdout);
    },
  ));

Deno.test("the same seed gives the same run to the last bit, another seed another", async () => {
  const flags = ["--seed=7", "--dropout=0.1"];
  const first = await freshLosses(...flags);
  assertEquals(await freshLosses(...flags), first);
  assertNotEquals(await lossesWith("--seed=8", "--dropout=0.1"), first);
});

// Small enough that the largest of them takes seconds on one core.
const SMALL: Record<string, string[]> = {
  "cosmo-cnn": ["--data-type=fields"],
  unet: ["--set=model.width=4", "--set=model.image_size=32"],
  fno: ["--width=4", "--modes=4", "--set=model.image_size=16"],
  gpt: ["--context=16", "--embed=32", "--set=model.vocab_size=32"],
  vit: ["--embed=32", "--set=model.image_size=16"],
  convnext_tiny: ["--set=model.image_size=32"],
};
/** The same network with more blocks. */
const LARGER = /^convnext_(small|base)$/;
// convlstm follows steps of time, which data that is made up doesn't have: map_models_test.ts trains it.
for (const model of MODELS.filter((name) => name !== "convlstm" && !LARGER.test(name))) {
  Deno.test(`--model ${model} trains two steps on its synthetic data, and eval reads what it saved`, () =>
    after([
      ...[`--model=${model}`, "--max-steps=2", "--train-samples=8", "--val-samples=3", "--batch-size=2"],
      ...["--optimizer=sgd", "--momentum=0", "--lr=1e-3", ...(SMALL[model] ?? [])],
    ], async (events, cwd) => {
      assertEquals(losses(events).map(Number.isFinite), [true, true]);
      const { stdout } = await succeed(["eval", "checkpoints/r_latest.pt", "--json", "--threads=1"], { cwd });
      const last = of("eval", events).at(-1)!;
      const { val_loss, metrics, samples } = JSON.parse(stdout);
      assertEquals([val_loss, metrics, samples], [last.val_loss, last.metrics, 3]);
    }));
}
