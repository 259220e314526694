// --zero 1 with real MPI: the numbers of one rank, a checkpoint like any other, and a part of the optimizer's state.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { template } from "../../core/models/user/templates.ts";
import { openMpi } from "../mpi.ts";
import { inTemp } from "./program.ts";
import { apart, numbers, tensors, train, trained, weightsApart } from "./ranks.ts";

const GPT = [
  ...["--model=gpt", "--data-type=synthetic", "--layers=2", "--embed=32", "--heads=2", "--context=16"],
  ...["--train-samples=50", "--val-samples=10", "--global-batch-size=16", "--batch-size=3", "--epochs=2"],
  ...["--dropout=0", "--clip-norm=0.5", "--ema=0.9", "--scheduler=constant"],
];
/** AdamW has two numbers of state for each of them. */
const STATE = /gpt: .* ([\d,]+) parameters/;

/** More buckets than may be on their way at a time. */
const WIDE = [...GPT, "--embed=256", "--bucket-mb=1"];

Deno.test("--zero 1 on 2, 3 and 4 ranks has the losses and weights of one rank", () =>
  inTemp(async (cwd) => {
    const mpi = openMpi(), flags = [...WIDE, "--optimizer=sgd"];
    await trained(cwd, "one", 1, flags, { mpi });
    for (const ranks of [2, 3, 4]) {
      const name = `of-${ranks}`;
      await trained(cwd, name, ranks, [...flags, "--zero=1"], { mpi });
      const found = {
        losses: apart(numbers(cwd, "one"), numbers(cwd, name)),
        weights: weightsApart(tensors(cwd, "one"), tensors(cwd, name)),
      };
      assert(found.losses < 1e-6 && found.weights < 1e-6, JSON.stringify(found));
      assertEquals([...tensors(cwd, name).keys()], [...tensors(cwd, "one").keys()]);
    }
  }));

// Adam divides by what may be nearly nothing, so the last bits of a gradient count: those of 2 ranks are the same.
for (const optimizer of ["adamw", "nadam", "own.ts"]) {
  Deno.test(`${optimizer} on 2 ranks: --zero 1 changes nothing, the optimizer's state in the checkpoint included`, () =>
    inTemp(async (cwd) => {
      Deno.writeTextFileSync(`${cwd}/own.ts`, template("optimizer", "own.ts"));
      const mpi = openMpi(), flags = [...GPT, `--optimizer=${optimizer}`, "--clip-norm=0", "--lr=3e-4"];
      await trained(cwd, "whole", 2, flags, { mpi });
      await trained(cwd, "parts", 2, [...flags, "--zero=1"], { mpi });
      const [whole, parts] = [tensors(cwd, "whole"), tensors(cwd, "parts")];
      const losses = apart(numbers(cwd, "whole"), numbers(cwd, "parts"));
      assert(losses < 1e-6, String(losses));
      for (const [at, values] of whole) {
        const other = parts.get(at)!, most = values.reduce((a, v) => Math.max(a, Math.abs(v)), 1e-12);
        const off = values.reduce((a, v, i) => Math.max(a, Math.abs(v - other[i])), 0) / most;
        assert(off < 1e-6, `${at}: ${off}`);
      }
    }));
}

// ASGD has state that is one number for all weights, and an average.
Deno.test("a run with --zero 1 goes on on other numbers of ranks, with it and without", () =>
  inTemp(async (cwd) => {
    const mpi = openMpi(), flags = [...GPT, "--optimizer=asgd", "--set=training.optimizer.t0=1"];
    await trained(cwd, "calm", 1, flags, { mpi });
    await trained(cwd, "moved", 1, [...flags, "--max-steps=2"], { mpi });
    await trained(cwd, "moved", 2, [...flags, "--max-steps=4", "--resume=auto", "--zero=1"], { mpi });
    await trained(cwd, "moved", 4, [...flags, "--max-steps=6", "--resume=auto", "--zero=1"], { mpi });
    await trained(cwd, "moved", 2, [...flags, "--max-steps=0", "--resume=auto", "--zero=0"], { mpi });
    const found = apart(numbers(cwd, "calm", ["step"]), numbers(cwd, "moved", ["step"]));
    assert(found < 1e-6, String(found));
  }));

Deno.test("each of two ranks has half of the optimizer's state, and says so", () =>
  inTemp(async (cwd) => {
    const { code, stdout } = await train(cwd, "r", 2, [...GPT, "--zero=1", "--optimizer=adamw"], {
      mpi: openMpi(),
    });
    assertEquals(code, 0);
    const parameters = Number(STATE.exec(stdout)![1].replaceAll(",", ""));
    const [, own, all] = /ZeRO-1: each rank has ([\d.]+) KiB of the optimizer's state of ([\d.]+) KiB/
      .exec(stdout)!.map(Number);
    assert(Math.abs(own - all / 2) <= 0.1, `${own} of ${all}`);
    assert(Math.abs(all - parameters * 8 / 1024) < 10, `${all} for ${parameters} parameters`);
  }));

Deno.test("what --zero 1 does not go together with is refused in a sentence", () =>
  inTemp(async (cwd) => {
    for (const other of ["--optimizer=lamb", "--deterministic=world", "--checkpoint-format=sharded"]) {
      const { code, stderr } = await train(cwd, "r", 1, [...GPT, "--zero=1", other], { mpi: openMpi() });
      assertEquals(code, 2);
      assertMatch(
        stderr,
        /^hpctrain: --zero 1 does not go together with (--optimizer lamb|--deterministic=world|--checkpoint-format sharded), /,
      );
    }
  }));
