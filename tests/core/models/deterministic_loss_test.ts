import { assert } from "@std/assert";
import { createLoss } from "../../../core/models/losses.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { randint, randn } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../libtorch.ts";

useLibtorch();

Deno.test("the cross entropy of maps is the same number in its deterministic form", () => {
  const facts = {
    task: "segmentation",
    input: { shape: [1, 6, 5], dtype: "f32" },
    outputs: 3,
  } as const;
  scope(() => {
    const output = randn([2, 3, 6, 5]), target = randint(0, 3, [2, 6, 5]);
    const [plain, deterministic] = (["off", "on"] as const).map((deterministic) => {
      const settings = {
        loss: "auto",
        label_smoothing: 0.1,
        ignore_index: 1,
        huber_delta: 1,
        deterministic,
      } as const;
      return toNumbers(createLoss(settings, facts).apply(output, target))[0];
    });
    assert(Math.abs(deterministic / plain - 1) < 1e-6, `${plain} and ${deterministic}`);
  });
});
