// Recorded models, lowered and derived, against libtorch's autograd.
import { assert, assertEquals } from "@std/assert";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { randint, randn } from "../../../ffi/ops.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { createLoss } from "../../../core/models/losses.ts";
import { type Facts, forward, type Model } from "../../../core/models/model.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import { gpt } from "../../../core/models/zoo/gpt.ts";
import { vit } from "../../../core/models/zoo/vit.ts";
import { simpleConvnet } from "../../../core/models/zoo/convnets.ts";
import { sentenceOf } from "../../../core/compile/refused.ts";
import { useLibtorch } from "../../libtorch.ts";
import { compared } from "./compiled.ts";

useLibtorch();
setThreads(1);

const settings = { loss: "auto", label_smoothing: 0, ignore_index: -100, huber_delta: 1 } as const;

interface Trained {
  readonly make: () => Model;
  readonly input: () => Tensor;
  readonly target: () => Tensor;
  readonly facts: Pick<Facts, "task" | "outputs">;
}

const MODELS: Readonly<Record<string, Trained>> = {
  mlp: {
    make: () => mlp({ inputs: 7, hidden: 128, layers: 2, outputs: 1 }),
    input: () => randn([32, 7]),
    target: () => randn([32, 1]),
    facts: { task: "regression", outputs: 1 },
  },
  "simple-convnet": {
    make: () => simpleConvnet({ channels: 1, height: 14, width: 14, outputs: 10, dropout: 0 }),
    input: () => randn([4, 1, 14, 14]),
    target: () => randint(0, 10, [4]),
    facts: { task: "classification", outputs: 10 },
  },
  gpt: {
    make: () => gpt({ vocabulary: 65, context: 16, layers: 2, heads: 2, embed: 32 }),
    input: () => randint(0, 65, [3, 16]),
    target: () => randint(0, 65, [3, 16]),
    facts: { task: "language", outputs: 65 },
  },
  vit: {
    make: () =>
      vit({ channels: 3, height: 8, width: 8, patch: 4, layers: 2, heads: 2, embed: 32, outputs: 5 }),
    input: () => randn([3, 3, 8, 8]),
    target: () => randint(0, 5, [3]),
    facts: { task: "classification", outputs: 5 },
  },
};

for (const [name, { make, input, target, facts }] of Object.entries(MODELS)) {
  for (const exact of [false, true]) {
    Deno.test(`${name} as a graph has autograd's gradients${exact ? ", exact" : ""}`, () =>
      scope(() => {
        manualSeed(1n);
        const model = make();
        const loss = createLoss(settings, { ...facts, input: { shape: [], dtype: "f32" } });
        const x = input(), y = target();
        const parameters = model.root.namedParameters().map(([, p]) => p);
        const made = compared({
          input: x,
          target: y,
          parameters,
          exact,
          pass() {
            const output = forward(model, x) as Tensor;
            return { output, loss: loss.apply(output, y) };
          },
        });
        if ("reason" in made) throw new Error(sentenceOf(made));
        assert(made.worst < 1e-5, `${made.worst}`);
        assertEquals(made.graph.gradients.length, parameters.length);
      }));
  }
}
