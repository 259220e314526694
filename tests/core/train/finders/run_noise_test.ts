// The gradient noise scale that a run tells, of gradients whose noise is known.
import { assert, assertEquals } from "@std/assert";
import { key, uniform } from "../../../../core/base/random.ts";
import { packParameters } from "../../../../core/train/arena.ts";
import { openRunNoise } from "../../../../core/train/finders/noise.ts";
import { requireGrad } from "../../../../ffi/autograd.ts";
import { writeBytes, zeros } from "../../../../ffi/make.ts";
import { keep } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { eventsOf, inTemp, succeed } from "../../../integration/program.ts";

useLibtorch();

Deno.test("the noise scale is the variance of a sample's gradient over the square of the mean one", () => {
  const size = 128, micro = 8, each = 16; // a step has `micro` micro-batches of `each` samples
  const arena = packParameters([["w", requireGrad(keep(zeros([size])))]], "cpu", false, 1);
  const draw = uniform(key(5, "noise")), deviation = 0.4, mean = 0.1;
  let drawn = 0;
  const gradient = () =>
    Float32Array.from({ length: size }, () => mean + deviation * Math.sqrt(12) * (draw(drawn++) - 0.5));
  const noise = openRunNoise(), told: number[] = [];
  for (let step = 0; step < 4000; step++) {
    noise.begin(step, true);
    const all = Array.from({ length: micro }, gradient);
    const first = new Float32Array(arena.gradient.numel);
    first.set(all[0].map((value) => value / micro));
    writeBytes(arena.gradient, new Uint8Array(first.buffer));
    noise.first(arena, 1 / micro);
    const whole = Array.from({ length: size }, (_, i) => all.reduce((sum, one) => sum + one[i], 0) / micro);
    const value = noise.taken(micro * each)?.(Math.hypot(...whole));
    if (value !== undefined) told.push(value);
  }
  assert(
    told.length > 380 && told.length <= 391,
    `${told.length}: each tenth step, but the first nine looks`,
  );
  const wanted = each * deviation ** 2 / mean ** 2; // both for each element
  const median = told.sort((a, b) => a - b)[told.length >> 1];
  assert(Math.abs(median - wanted) < 0.1 * wanted, `${median}, ${wanted}`);
});

Deno.test("a run tells it where its steps accumulate, and is the same run whether it is looked at or not", () =>
  inTemp(async (cwd) => {
    const run =
      ("--model mlp --data-type synthetic --train-samples 3200 --val-samples 20 --global-batch-size 64 --epochs 4 " +
        "--threads 1 --device cpu --no-wandb").split(" ");
    const lossOf = (name: string) => eventsOf(cwd, name).findLast(({ kind }) => kind === "eval")!.val_loss;
    const toldBy = (name: string) =>
      eventsOf(cwd, name).flatMap(({ noise_scale }) => noise_scale === undefined ? [] : [noise_scale]);
    await succeed([...run, "--batch-size=16", "--log-interval=1", "--run-name=told"], { cwd });
    await succeed([...run, "--batch-size=16", "--log-interval=1000", "--run-name=quiet"], { cwd });
    await succeed([...run, "--batch-size=64", "--log-interval=1", "--run-name=whole"], { cwd });
    const told = toldBy("told") as number[];
    assert(told.length > 0 && told.length <= 11 && told.every((value) => value > 0), told.join(" "));
    assertEquals(toldBy("whole"), []);
    assertEquals(lossOf("quiet"), lossOf("told"));
  }));
