// Runs on both architectures: the same losses but for rounding, a checkpoint of one taken up by the other. Started by
// ./scripts/test-aarch64.
import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { join } from "paths";
import { eventsOf, inTemp } from "../integration/program.ts";
import { apart, ARM, done, losses, type Machine, train, X86 } from "./machines.ts";
import { assertSentence } from "../sentences.ts";

/** Sums are made in another order, so their last bits differ, and later steps build on them. */
const CLOSE = 1e-5;

const MODELS: readonly (readonly [name: string, flags: readonly string[]])[] = [
  ["the preset debug", ["--preset=debug", "--max-steps=40"]],
  ["a GPT with dropout", [
    ...[
      "--model=gpt",
      "--data-type=synthetic",
      "--layers=2",
      "--hidden-size=32",
      "--heads=2",
      "--context=16",
    ],
    ...["--train-samples=64", "--val-samples=8", "--batch-size=8", "--dropout=0.1", "--max-steps=8"],
  ]],
  ["simple-convnet", [
    ...["--model=simple-convnet", "--data-type=synthetic", "--input-size=16", "--train-samples=64"],
    ...["--val-samples=16", "--batch-size=8", "--max-steps=8"],
  ]],
];
for (const [name, flags] of MODELS) {
  Deno.test(`${name} trains to x86-64's losses within 1e-5, which are other bits`, () =>
    inTemp(async (cwd) => {
      await train(X86, cwd, "x86", flags);
      await train(ARM, cwd, "arm", flags);
      const [x86, arm] = [losses(cwd, "x86"), losses(cwd, "arm")];
      assert(apart(x86, arm) < CLOSE, `${apart(x86, arm)}`);
      assertNotEquals(arm, x86, "the same bits after all: docs/exactness.md says that they differ");
    }));
}

Deno.test("the same run twice on aarch64 has the same bits", () =>
  inTemp(async (cwd) => {
    for (const run of ["first", "second"]) await train(ARM, cwd, run, ["--preset=debug", "--max-steps=12"]);
    assertEquals(losses(cwd, "second"), losses(cwd, "first"));
  }));

const CONSTANT = ["--preset=debug", "--scheduler=constant", "--warmup=0steps"]; // a rate that no number of steps changes
const DEBUG = [...CONSTANT, "--max-steps=20"];
for (const [from, to] of [[X86, ARM], [ARM, X86]] as readonly (readonly [Machine, Machine])[]) {
  Deno.test(`a run begun on ${from.name} goes on on ${to.name} within 1e-5 of the one that stayed, and says so`, () =>
    inTemp(async (cwd) => {
      await train(from, cwd, "whole", DEBUG);
      await train(from, cwd, "moved", [...CONSTANT, "--max-steps=10"]);
      const checkpoint = join(cwd, "checkpoints/moved_latest.pt");
      await done(to, ["inspect", checkpoint, "--verify"], { cwd });
      const { stdout, stderr } = await train(to, cwd, "moved", [...DEBUG, `--resume=${checkpoint}`]);
      assertMatch(
        stdout + stderr,
        new RegExp(`of a run on ${from.name}, and this machine is ${to.name}: .* are not the same bits`),
      );
      const [whole, moved] = [losses(cwd, "whole"), losses(cwd, "moved")];
      assertEquals([whole.length, moved.length], [20, 20]);
      assertEquals(moved.slice(0, 10), whole.slice(0, 10));
      assert(apart(whole, moved) < CLOSE, `${apart(whole, moved)}`);
      assertNotEquals(moved, whole);
    }));
}

Deno.test("--compile on aarch64 runs op by op, with the same bits as without, and says why", () =>
  inTemp(async (cwd) => {
    const flags = ["--preset=debug", "--max-steps=6"];
    await train(ARM, cwd, "plain", [...flags, "--no-compile"]);
    const { stdout, stderr } = await train(ARM, cwd, "compiled", [...flags, "--compile"]);
    assertSentence("aarch64/training: compiled steps code", stdout + stderr);
    assertEquals(losses(cwd, "compiled"), losses(cwd, "plain"));
  }));

Deno.test("the quickstart, on a twentieth of its samples, learns on aarch64 as on x86-64", () =>
  inTemp(async (cwd) => {
    const flags = ["--preset=quickstart", "--train-samples=192", "--val-samples=64", "--epochs=1"];
    await train(X86, cwd, "x86", flags);
    const { stdout } = await train(ARM, cwd, "arm", flags);
    assertMatch(stdout, /^\[Epoch 1\/1\] Loss: .* \| Val R2: -?\d+\.\d+ /m);
    const [x86, arm] = [losses(cwd, "x86"), losses(cwd, "arm")];
    assertEquals(arm.length, 3);
    assert(apart(x86, arm) < CLOSE, `${apart(x86, arm)}`);
    const validated = ["x86", "arm"].map((run) =>
      eventsOf(cwd, run).findLast(({ kind }) => kind === "eval")!.val_loss as number
    );
    assert(apart(validated.slice(0, 1), validated.slice(1)) < CLOSE, validated.join());
  }));
