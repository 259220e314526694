// --compile of models whose images lie channels last: exact steps have the bits of ordinary ones, fast ones train alike.
import { assert, assertEquals, assertMatch } from "@std/assert";
import type { Facts, Model } from "../../../core/models/model.ts";
import { cosmoCnn, simpleConvnet } from "../../../core/models/zoo/convnets.ts";
import { unet } from "../../../core/models/zoo/unet.ts";
import { vit } from "../../../core/models/zoo/vit.ts";
import { openCompiledPass } from "../../../core/train/compiled_pass.ts";
import type { Mode } from "../../../core/train/compiler.ts";
import { imagesLast } from "../../../core/train/feed.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { printCode } from "../../../core/compile/x86/print.ts";
import { loadCode } from "../../../ffi/machine_code.ts";
import { randint, randn } from "../../../ffi/ops.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { keep, scope } from "../../../ffi/tensor.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { open, rig, run, weights } from "./rig.ts";

open();
setThreads(1);
const isa = machineIsa();
if (isa) loadCode(printCode([], isa, 1)); // what it opens stays open

const STEPS = 4;

interface Case {
  make(): Model;
  readonly task: "classification" | "regression" | "segmentation";
  readonly shape: readonly [number, number, number];
  readonly outputs: number;
  readonly batch: number;
  readonly modes: readonly Mode[];
}

const CASES: Readonly<Record<string, Case>> = {
  "simple-convnet": {
    make: () => simpleConvnet({ channels: 1, height: 14, width: 12, outputs: 10, dropout: 0.2 }),
    ...{ task: "classification", shape: [1, 14, 12], outputs: 10, batch: 4, modes: ["exact", "fast"] },
  },
  "simple-convnet of three channels": {
    make: () => simpleConvnet({ channels: 3, height: 8, width: 9, outputs: 10, dropout: 0 }),
    ...{ task: "classification", shape: [3, 8, 9], outputs: 10, batch: 5, modes: ["exact", "fast"] },
  },
  "cosmo-cnn": {
    make: () => cosmoCnn({ channels: 1, height: 16, width: 16, filters: 8, outputs: 2 }),
    ...{ task: "regression", shape: [1, 16, 16], outputs: 2, batch: 6, modes: ["exact", "fast"] },
  },
  unet: {
    make: () => unet({ channels: 2, filters: 8, depth: 2, outputs: 1 }),
    ...{ task: "regression", shape: [2, 16, 16], outputs: 256, batch: 3, modes: ["fast"] },
  },
  vit: {
    make: () =>
      vit({ channels: 3, height: 8, width: 12, patch: 4, layers: 1, heads: 2, embed: 24, outputs: 5 }),
    ...{ task: "classification", shape: [3, 8, 12], outputs: 5, batch: 4, modes: ["fast"] },
  },
  "cosmo-cnn, images channels first": {
    make: () => ({
      ...cosmoCnn({ channels: 2, height: 16, width: 16, filters: 8, outputs: 2 }),
      channelsLastOnCpu: false,
    }),
    ...{ task: "regression", shape: [2, 16, 16], outputs: 2, batch: 6, modes: ["exact", "fast"] },
  },
};

interface Trained {
  readonly digests: readonly string[];
  readonly losses: readonly number[];
  /** Running means and variances. */
  readonly statistics: readonly number[];
  readonly told: string;
}

async function trained({ make, task, shape, outputs, batch }: Case, mode: Mode | null): Promise<Trained> {
  manualSeed(0n);
  const model = make(), facts = { task, input: { shape, dtype: "f32" }, outputs } as Facts;
  const made = rig(model, facts, { flags: ["--optimizer", "sgd", "--lr", "0.01"] });
  const told: string[] = [];
  const tell = { line: (text: string) => told.push(text), warn: (text: string) => told.push(text) };
  const step = { ...made.step, compiled: mode && openCompiledPass(made.arena, mode, () => tell) };
  manualSeed(1n);
  const batches = [1, 2].map(() => {
    const images = keep(scope(() => {
      const input = randn([batch, ...shape]);
      return model.channelsLastOnCpu ? imagesLast(input) : input;
    }));
    const target = task === "classification"
      ? randint(0, outputs, [batch])
      : randn(task === "regression" && outputs > 2 ? [batch, 1, ...shape.slice(1)] : [batch, outputs]);
    return { input: images, target: keep(target) };
  });
  const losses = Array.from(
    { length: STEPS },
    (_, number) => run({ ...made, step }, [batches[number % 2]], { number }).loss,
  );
  const statistics = model.root.namedBuffers().flatMap(([, t]) => [...toNumbers(t)].map(Number));
  const digests = await weights(made);
  for (const { input, target } of batches) input.free(), target.free();
  return { digests, losses, statistics, told: told.join("\n") };
}

const near = (a: readonly number[], b: readonly number[], bound: number): boolean =>
  a.every((one, i) => Math.abs(one - b[i]) <= bound * (1 + Math.abs(b[i])));

for (const [name, c] of Object.entries(CASES)) {
  Deno.test({
    name: `compiled steps of images train as ordinary ones: ${name}`,
    ignore: isa === null,
    async fn() {
      const plain = await trained(c, null);
      for (const mode of c.modes) {
        const compiled = await trained(c, mode);
        assertMatch(compiled.told, new RegExp(`^Steps are compiled: .* ${mode}; gradients [^\n]*\\.$`));
        if (mode === "exact") {
          assertEquals(compiled.losses, plain.losses);
          assertEquals(compiled.digests, plain.digests);
        } else {
          assert(near(compiled.losses, plain.losses, 1e-3), `${compiled.losses}, ${plain.losses}`);
        }
        assert(near(compiled.statistics, plain.statistics, mode === "exact" ? 0 : 1e-3), "statistics");
      }
    },
  });
}
