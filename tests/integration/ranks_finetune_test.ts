// Frozen parameters and rates of their own on several ranks, with --zero 1 and without: the numbers of one rank.
import { assert } from "@std/assert";
import { openMpi } from "../mpi.ts";
import { inTemp } from "./program.ts";
import { apart, numbers, tensors, trained, weightsApart } from "./ranks.ts";

const GPT = [
  ...["--model=gpt", "--data-type=synthetic", "--layers=2", "--embed=32", "--heads=2", "--context=16"],
  ...["--train-samples=50", "--val-samples=10", "--global-batch-size=16", "--batch-size=8", "--epochs=2"],
  ...["--dropout=0", "--scheduler=constant", "--lr=1e-2", "--optimizer=sgd", "--bucket-mb=1"],
];
const FURTHER = [
  ...["--freeze=transformer.w[tp]e,transformer.h.0", "--freeze-until=1"],
  ...["--lr-for=transformer.ln_f=3e-2", "--layer-decay=0.5"],
];
const GROUPS = [
  ...["--param-group=norms, biases: lr=2e-2, momentum=0.5", "--weight-decay=0.1"],
  ...["--gradient-noise=1e-4", "--clip-value=0.05", "--clip-norm=0.5"],
];
const FROZEN = ["--freeze=transformer.wpe,transformer.h.0.*.weight", "--lr-for=*.bias=2e-2"];

Deno.test("frozen parameters, groups and rates by name and depth: 2 ranks and --zero 1 have the numbers of one rank", () =>
  inTemp(async (cwd) => {
    const mpi = openMpi();
    const cases = [
      ["waits", [...GPT, ...FURTHER], ["--zero=1"]],
      ["stays", [...GPT, ...FROZEN], []],
      ["groups", [...GPT, ...GROUPS], ["--zero=1"]],
      ["compiled", [...GPT, ...GROUPS, "--compile=fast"], ["--zero=1"]],
      // A rank without a part of a group keeps count of its rates.
      ["averages", [...GPT, ...FURTHER, "--optimizer=asgd", "--set=training.optimizer.t0=2"], ["--zero=1"]],
    ] as const;
    for (const [way, flags, more] of cases) {
      await trained(cwd, way, 1, flags, { mpi });
      await trained(cwd, `${way}-two`, 2, [...flags, ...more], { mpi });
      const found = {
        losses: apart(numbers(cwd, way), numbers(cwd, `${way}-two`)),
        weights: weightsApart(tensors(cwd, way), tensors(cwd, `${way}-two`)),
      };
      assert(found.losses < 1e-6 && found.weights < 1e-6, `${way}: ${JSON.stringify(found)}`);
    }
    await trained(cwd, "moved", 1, [...GPT, ...FURTHER, "--max-steps=3"], { mpi });
    await trained(cwd, "moved", 2, [...GPT, ...FURTHER, "--resume=auto", "--max-steps=100", "--zero=1"], {
      mpi,
    });
    const off = apart(numbers(cwd, "waits", ["step"]), numbers(cwd, "moved", ["step"]));
    assert(off < 1e-6, `a run that went on: ${off}`);
  }));
