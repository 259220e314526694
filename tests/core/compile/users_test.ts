// A model in TypeScript and exported programs as graphs, against autograd.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import * as library from "../../../mod.ts";
import { setThreads } from "../../../ffi/context.ts";
import { zeros } from "../../../ffi/make.ts";
import { randint, randn } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { sentenceOf } from "../../../core/compile/refused.ts";
import { exportedModel } from "../../../core/models/exported/model.ts";
import { createLoss } from "../../../core/models/losses.ts";
import { type Facts, forward, type Model } from "../../../core/models/model.ts";
import { op } from "../../../core/models/user/op.ts";
import { openUserFile } from "../../../core/models/user/file.ts";
import type { ModelSettings } from "../../../core/models/user/library.ts";
import { MODEL_EXAMPLE, userModel } from "../../../core/models/user/made.ts";
import { useLibtorch } from "../../libtorch.ts";
import { trainedInPython } from "../models/exported/training.ts";
import { compared } from "./compiled.ts";
import { farthest, trained } from "./programs.ts";
import { machineIsa } from "../../../ffi/machine.ts";

useLibtorch();
setThreads(1);

const folder = Deno.makeTempDirSync();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const NAMES = ["physics", "decoder", "unet", "graph"];
const TRAINED = [...NAMES, "encoder", "gru", "experts"];
const exported = await trainedInPython(TRAINED, folder, 1);
// The libraries that they open stay open, and are no test's leak.
for (const { path } of exported) exportedModel(path).root.free();
scope(() => op("add_.Tensor")(zeros([1]), zeros([1])));

/** Sums over many numbers that cancel stand before some of these gradients. */
const FLOOR = 1e-2;

function check(model: Model, input: Tensor, target: Tensor, facts: Pick<Facts, "task" | "outputs">): void {
  const settings = { loss: "auto", label_smoothing: 0, ignore_index: -100, huber_delta: 1 } as const;
  const loss = createLoss(settings, { ...facts, input: { shape: [], dtype: input.dtype } });
  const parameters = model.root.namedParameters().map(([, p]) => p);
  const made = compared({
    input,
    target,
    parameters,
    floor: FLOOR,
    pass() {
      const output = forward(model, input) as Tensor;
      return { output, loss: loss.apply(output, target) };
    },
  });
  if ("reason" in made) throw new Error(sentenceOf(made));
  assert(made.worst < 1e-5, `${made.worst}`);
  assertEquals(made.graph.gradients.filter((g) => g !== null).length, parameters.length);
}

for (const [i, name] of NAMES.entries()) {
  Deno.test(`the exported program ${name} as a graph has autograd's gradients`, () => {
    const { path, input, target, task, outputs } = exported[i];
    const model = exportedModel(path);
    const made = (m: typeof input) => m.below ? randint(0, m.below, m.shape) : randn(m.shape);
    scope(() => check(model, made(input), made(target), { task, outputs }));
    model.root.free();
  });
}

for (const [i, name] of TRAINED.entries()) {
  Deno.test({
    name: `the exported program ${name} has the losses of ordinary steps when its steps are compiled`,
    ignore: machineIsa() === null,
    sanitizeResources: false, // what is opened to run machine code stays open
    fn() {
      const plain = trained(exported[i], null, 5), exact = trained(exported[i], "exact", 5);
      const fast = trained(exported[i], "fast", 5);
      assert(fast.compiled, fast.told);
      assert(farthest(fast.losses, plain.losses) < 1e-6, `${fast.losses} in place of ${plain.losses}`);
      assertEquals(exact.losses, plain.losses, exact.told);
    },
  });
}

/** A residual network with a physical term: its own code, numbers and all. */
const NET = `import type { MadeModel, ModelLibrary, Tensor } from "./hpctrain.d.ts";

export default function ({ nn, ops, gradient, facts, outputs, settings }: ModelLibrary): MadeModel {
  const width: number = settings.hidden_size;
  class Net extends nn.Module {
    readonly in = this.child("in", new nn.Linear(facts.input.shape[0], width));
    readonly norm = this.child("norm", new nn.LayerNorm(width));
    readonly mix = this.child("mix", new nn.Linear(width, width));
    readonly out = this.child("out", new nn.Linear(width, outputs));
    readonly scale = this.parameter("scale", ops.ones([1]));
    forward(x: Tensor): Tensor {
      const slope = gradient((t) => ops.softmax(ops.square(t), 1), x);
      let h = ops.silu(this.in.forward(ops.add(x, ops.scale(slope, 0.1))));
      for (let i = 1; i <= 3; i++) h = ops.add(h, ops.scale(ops.gelu(this.mix.forward(this.norm.forward(h))), 1 / i));
      return ops.mul(this.out.forward(h), this.scale);
    }
  }
  return new Net();
}
`;

Deno.test("a model in TypeScript as a graph has autograd's gradients", async () => {
  const path = join(folder, "net.ts");
  Deno.writeTextFileSync(path, NET);
  const file = await openUserFile(path, "model", library as Record<string, unknown>, MODEL_EXAMPLE);
  const facts: Facts = { task: "regression", input: { shape: [5], dtype: "f32" }, outputs: 2 };
  const settings: ModelSettings = {
    ...{ hidden_size: 16, layers: 2, dropout: -1, width: 0, context: 0, heads: 0, embed: 0, patch_size: 0 },
  };
  const model = userModel(file, facts, 2, settings);
  scope(() => check(model, randn([12, 5]), randn([12, 2]), facts));
  model.root.free();
});
