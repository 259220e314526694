// A training step that leaves one tensor behind is a failing test. The long soak is tests/core/train/soak_program.ts, run here in full.
import { assert, assertEquals } from "@std/assert";
import type { Facts } from "../../../core/models/model.ts";
import { gpt } from "../../../core/models/zoo/gpt.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import type { MicroBatch } from "../../../core/train/micro_batch.ts";
import { randint, randn } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { liveTensors, scope } from "../../../ffi/tensor.ts";
import { open, type Rig, rig, type RigOptions, rows, run } from "./rig.ts";

open();
manualSeed(1n);

function constantFromStep3(made: Rig, steps: number, batch: () => MicroBatch): void {
  let settled = 0;
  for (let number = 0; number < steps; number++) {
    scope(() => run(made, [batch()], { number, norm: number % 2 === 1 }));
    if (number === 2) settled = liveTensors();
    if (number > 2) assertEquals(liveTensors(), settled, `after step ${number}`);
  }
}

const WAYS: Record<string, RigOptions> = {
  "adamw on autograd's own gradients": { direct: true },
  "adamw with clipping": { clipNorm: 1 },
  "sgd": { flags: ["--optimizer", "sgd"], direct: true },
  "lamb": { flags: ["--optimizer", "lamb"] },
};

for (const [way, options] of Object.entries(WAYS)) {
  Deno.test(`1,000 steps of mlp keep the number of tensors constant from step 3 on: ${way}`, () => {
    const made = rig(mlp({ inputs: 7, hidden: 32, layers: 2, outputs: 1 }), rows, options);
    constantFromStep3(made, 1000, () => ({ input: randn([32, 7]), target: randn([32, 1]) }));
  });
}

for (const options of [{}, { checkpointing: true }, { cast: "bf16", direct: true }] as RigOptions[]) {
  Deno.test(`60 steps of gpt keep the number of tensors constant: ${JSON.stringify(options)}`, () => {
    const facts: Facts = { task: "language", input: { shape: [32], dtype: "i64" }, outputs: 65 };
    const sizes = { vocabulary: 65, context: 32, layers: 2, heads: 2, embed: 32, dropout: 0.1 };
    const tokens = () => randint(0, 65, [4, 32], "i64");
    constantFromStep3(rig(gpt(sizes), facts, options), 60, () => ({ input: tokens(), target: tokens() }));
  });
}

Deno.test("10,000 steps of mlp and 1,000 of gpt: tensors constant from step 3, memory grows less than 2%", async () => {
  const program = new URL("./soak_program.ts", import.meta.url).pathname;
  const args = ["run", "-A", "--no-check", program];
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
  const told = new TextDecoder().decode(stdout);
  assert(success, `${told}\n${new TextDecoder().decode(stderr)}`);
  for (const { model, steps, tensors_settled, tensors_end, growth } of JSON.parse(told)) {
    assertEquals(steps, model === "mlp" ? 10_000 : 1_000);
    assertEquals(tensors_end, tensors_settled, model);
    assert(growth < 0.02, `${model}: memory grew by ${(100 * growth).toFixed(2)}%`);
  }
});
