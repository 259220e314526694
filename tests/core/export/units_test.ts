// What a program does to inputs in the data's own units, before its model sees them.
import { assertEquals } from "@std/assert";
import { inUnits } from "../../../core/export/units.ts";
import type { Normalisation } from "../../../core/data/source/source.ts";
import type { Loss } from "../../../core/models/losses.ts";
import type { Model } from "../../../core/models/model.ts";
import type { Config } from "../../../core/settings/settings.ts";
import { tensor, toNumbers } from "../../../ffi/make.ts";
import { reshape } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../libtorch.ts";
import { settings } from "../data/tables/help.ts";

useLibtorch();

/** Null where the model sees them as they are. */
function seen(data: Partial<Config["data"]>, channels: number, by: Normalisation | null = null) {
  const facts = { input: { shape: [channels], dtype: "f32" }, outputs: 1 } as const;
  const config = settings({ data: { normalise_targets: "off", ...data } });
  const { model, within } = inUnits({ blocks: [] } as unknown as Model, config.data, facts, {} as Loss, by);
  const [inputs] = model.blocks;
  if (!inputs) return null;
  return scope(() => {
    const x = reshape(tensor(Float32Array.from({ length: 2 * channels }, (_, i) => i)), [2, channels]);
    const numbers = toNumbers(inputs.forward(x) as Tensor);
    return { within, numbers: Array.from(numbers, (value) => Number(value.toFixed(5))) };
  });
}

Deno.test("a scaling is in the program whether or not its values are normalised after it", () => {
  const asinh = [0, 1, 2, 3].map((x) => Number(Math.asinh(x / 2).toFixed(5)));
  const scaling = { scaling: "asinh", softening: 2 } as const;
  assertEquals(seen(scaling, 2), { within: [], numbers: asinh });
  const known = { mean: [1], std: [0.5] };
  const normalised = [0, 1, 2, 3].map((x) => Number(((Math.asinh(x / 2) - 1) / 0.5).toFixed(5)));
  assertEquals(seen(scaling, 2, known), { within: ["normalisation"], numbers: normalised });
  assertEquals(seen({}, 2, known), null); // figures that everybody knows
});

Deno.test("channels that came behind the data's own, a mask's and a climatology's, are left as they are", () => {
  const given = { mean: ["1"], std: ["2"] };
  assertEquals(seen(given, 2)?.numbers, [-0.5, 0, 0.5, 1]);
  assertEquals(seen({ ...given, climatology_channel: true }, 2)?.numbers, [-0.5, 1, 0.5, 3]);
  assertEquals(seen({ ...given, climatology_channel: true, mask_channel: true }, 3)?.numbers, [
    -0.5,
    1,
    2,
    1,
    4,
    5,
  ]);
});
