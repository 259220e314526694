// --compile on a CPU from outside: the bits of a run without it on two ranks and after kills, and the sentence where
// steps can't be compiled.
import { assertEquals, assertMatch } from "@std/assert";
import { machineIsa } from "../../ffi/machine.ts";
import { openMpi } from "../mpi.ts";
import { survivesKills } from "./exactness.ts";
import { inTemp, succeed, TINY } from "./program.ts";
import { numbers, tensors, train } from "./ranks.ts";
import { assertSentence } from "../sentences.ts";

const MLP = [
  ...["--model=mlp", "--hidden-size=24", "--layers=2", "--dropout=0", "--data-type=synthetic"],
  ...["--train-samples=50", "--val-samples=10", "--batch-size=4", "--epochs=3", "--no-wandb", "--threads=1"],
];
const ignore = machineIsa() === null;

const WAYS: readonly (readonly [string, number, readonly string[]])[] = [
  ["two ranks with ZeRO-1, accumulation, clipping and averages", 2, [
    ...["--zero=1", "--grad-accum=3", "--clip-norm=0.5", "--ema=0.9"],
  ]],
  ["four ranks", 4, ["--hidden-size=600"]],
];

for (const [title, ranks, more] of WAYS) {
  Deno.test({
    name: `${title}: exact steps have the bits of ordinary ones`,
    ignore,
    fn: () =>
      inTemp(async (cwd) => {
        const flags = [...MLP, ...more], mpi = openMpi();
        const [plain, exact] = await Promise.all(["off", "exact"].map(async (compile) => {
          const { code, stdout, stderr } = await train(
            cwd,
            compile,
            ranks,
            [...flags, `--compile=${compile}`],
            { mpi },
          );
          assertEquals(code, 0, stderr);
          return stdout;
        }));
        assertMatch(
          exact,
          /Steps are compiled: \d+ kernels, .* exact; gradients equal the ordinary ones\./,
        );
        assertEquals(/compiled/.test(plain), false);
        assertEquals(numbers(cwd, "exact"), numbers(cwd, "off"));
        assertEquals([...tensors(cwd, "exact")], [...tensors(cwd, "off")]);
      }),
  });
}

Deno.test({
  name: "a run of exact steps that is killed twice goes on with the same bits",
  ignore,
  fn: () =>
    // Steps of some milliseconds, so that a kill comes in between; a small checkpoint.
    survivesKills([
      ...[...MLP, "--hidden-size=128", "--batch-size=4096", "--train-samples=131072", "--epochs=20"],
      "--compile=exact",
    ], new Map()),
});

Deno.test({
  name: "a run whose steps can't be compiled says why, and trains op by op",
  ignore,
  fn: () =>
    inTemp(async (cwd) => {
      const args = ["train", ...TINY, "--model=mlp", "--data-type=synthetic", "--no-wandb", "--amp=bf16"];
      const { stdout } = await succeed([...args, "--compile=exact"], { cwd });
      assertSentence("integration/compiled: steps compiled amp", stdout);
    }),
});

Deno.test({
  name: "hpctrain models NAME --plan shows the kernels of a step, and calls of ops that have no rule",
  ignore,
  fn: async () => {
    const { stdout } = await succeed(["models", "mlp", "--plan", "--batch-size=4", "--compile=fast"]);
    assertMatch(
      stdout,
      /^A step of 4 samples with --compile=fast: forward and backward, .*\.\n( {2}\S.*\n)+12 kernels, /,
    );
    const images = await succeed(["models", "cosmo-cnn", "--plan", "--batch-size=2"]);
    assertMatch(images.stdout, /\n {2}convolution +libtorch's\n/);
    const other = await succeed(["models", "fno", "--plan", "--batch-size=2"]);
    assertMatch(other.stdout, /\n {2}gradient fft_rfft2 +libtorch's\n/); // no rule knows it
  },
});
