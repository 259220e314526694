// What training will take of a CPU's memory, told before its first step.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { loadDataReader } from "../../../core/data/open/open.ts";
import { build } from "../../../core/train/build.ts";
import { checkTrainingMemory, judgeTrainingMemory } from "../../../core/train/memory.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { randn } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../libtorch.ts";
import { settings } from "./rig.ts";

useLibtorch();
const MIB = 2 ** 20;
const sum = (t: Tensor) => toNumbers(t).reduce((all, value) => all + value, 0);

async function checked(free: number, ...flags: string[]): Promise<string | null> {
  const unet = ["--model", "unet", "--data-type", "synthetic", "--train-samples", "8", "--val-samples", "0"];
  const config = settings(
    ...unet,
    "--set",
    "model.image_size=32",
    "--batch-size",
    "8",
    "--threads",
    "1",
    ...flags,
  );
  await loadDataReader(config.data);
  const built = build(config, "cpu");
  try {
    return checkTrainingMemory(config, built, 1, 1, { free: free * MIB, swap: 0, ranks: 1 });
  } finally {
    built.model.root.free();
  }
}

Deno.test("what fits with a tenth to spare is not spoken of; what is too much even halved is refused, but for swap and ranks", () => {
  const need = { state: 10, copy: 0, perSample: 5, batch: 16 }; // 90, and 50 at least
  const verdict = (free: number, swap = 0, ranks = 1) => judgeTrainingMemory(need, { free, swap, ranks });
  assertEquals([101, 99, 51, 49].map((free) => verdict(free)), ["fits", "tight", "tight", "impossible"]);
  assertEquals(
    judgeTrainingMemory({ ...need, copy: 90 }, { free: 101, swap: 0, ranks: 1 }),
    "tight",
    "a save can do without a copy",
  );
  assertEquals([verdict(49, 2), verdict(101, 0, 2), verdict(99, 0, 2)], ["tight", "tight", "impossible"]);
});

Deno.test("a batch that may not fit is told with figures and what would; one that can't is refused with code 4", async () => {
  assertEquals(await checked(100_000), null);
  const warned = await checked(30, "--optimizer", "sgd");
  assertMatch(
    warned!,
    /^Memory may run out\. Training takes about \S+ MiB more \(\S+ MiB for gradients, the optimizer and a copy for saves, \S+ MiB for a batch of 8\), and 30\.0 MiB are free .*--gradient-checkpointing, or --amp bf16\.$/,
  );
  const error = await checked(15, "--optimizer", "sgd").catch((error) => error) as UserError;
  assertEquals([error.kind, error.exitCode], ["memory", 4]);
  assertMatch(error.message, /^This can't fit into memory\. .*--memory-check warn\.$/);
  assertMatch((await checked(15, "--memory-check", "warn"))!, /^Memory may run out\./);
  assertEquals(await checked(15, "--memory-check", "off"), null);
});

Deno.test("the estimate leaves the model, its running statistics and what is drawn next as they were", async () => {
  const config = settings(
    "--model",
    "resnet18",
    "--data-type",
    "synthetic",
    "--train-samples",
    "8",
    "--batch-size",
    "8",
  );
  await loadDataReader(config.data);
  const drawn = (check: boolean) => {
    const built = build(config, "cpu");
    if (check) {
      assert(checkTrainingMemory(config, built, 1, 1, { free: 280 * MIB, swap: 2 ** 40, ranks: 1 }) !== null);
    }
    const buffers = built.model.root.namedBuffers().map(([, t]) => t.shape.length > 0 ? sum(t) : 0);
    const next = randn([3]);
    const training = built.model.root.training;
    built.model.root.free();
    return { buffers, next: toNumbers(next), training };
  };
  assertEquals(drawn(true), drawn(false));
});
