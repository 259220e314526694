// The views of test-time augmentation beside torchvision's five_crop and ten_crop, and what they are refused for.
import { assertEquals, assertThrows } from "@std/assert";
import { uncropped, type Views, viewsOf } from "../../../core/predict/views.ts";
import type { Source } from "../../../core/data/source/source.ts";
import { contiguous } from "../../../ffi/ops.ts";
import { tensor, toNumbers } from "../../../ffi/make.ts";
import { scope } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../libtorch.ts";
import { assertRefusal } from "../../sentences.ts";
import { python } from "../checkpoint/python.ts";
import { settings } from "../train/rig.ts";

useLibtorch();

const source = (shape: number[], more: object = {}) =>
  ({
    name: "there",
    input: { shape },
    target: { shape: [] },
    facts: { task: "classification" },
    ...more,
  }) as unknown as Source;

Deno.test("five and ten crops are torchvision's, in its order", () => {
  const [side, crop] = [13, 8],
    values = Float32Array.from({ length: 2 * side * side }, (_, i) => (i * 37) % 101);
  const theirs: number[][] = JSON.parse(python(`
import json, torch
from torchvision.transforms.v2 import functional as F
x = (torch.arange(338) * 37 % 101).float().reshape(1, 2, 13, 13)
print(json.dumps([y.flatten().tolist() for y in F.ten_crop(x, [8, 8])]))
`));
  for (const [wanted, count] of [["five_crop", 5], ["ten_crop", 10]] as const) {
    const views = viewsOf(wanted, source([2, side, side]), crop);
    const ours = views.map(({ input }) =>
      scope(() => [...toNumbers(contiguous(input!(tensor(values, [1, 2, side, side]))))])
    );
    assertEquals(ours, theirs.slice(0, count), wanted);
  }
});

Deno.test("a mirrored map is mirrored back, and a class is not", () => {
  const map = source([1, 2, 3], { target: { shape: [1, 2, 3] }, facts: { task: "regression" } });
  const [plain, mirrored] = viewsOf("flips", map, 0);
  assertEquals(plain, { input: null });
  scope(() => {
    const x = tensor(Float32Array.of(1, 2, 3, 4, 5, 6), [1, 1, 2, 3]), seen = mirrored.input!(x);
    assertEquals([...toNumbers(seen)], [3, 2, 1, 6, 5, 4]);
    assertEquals([...toNumbers(mirrored.output!(seen))], [1, 2, 3, 4, 5, 6]);
  });
  assertEquals(viewsOf("flips", source([3, 4, 4]), 0)[1].output, undefined);
});

Deno.test("crops are cut out of what evaluation has before it cuts out the middle", () => {
  const data = (more: object) => ({ ...settings().data, ...more });
  const listed = uncropped("five_crop", data({ augment: "random_resized_crop(224), horizontal_flip" }));
  assertEquals([listed.side, listed.data.resize, listed.data.centre_crop], [224, 256, 256]);
  const told = uncropped("ten_crop", data({ resize: 40, centre_crop: 32 }));
  assertEquals([told.side, told.data.resize, told.data.centre_crop], [32, 40, 40]);
  for (
    const [name, more] of Object.entries({
      "no larger square": { resize: 32, centre_crop: 32 },
      "no crop": {},
    })
  ) {
    assertRefusal(
      "usage",
      `core/predict/views: ${name}`,
      assertThrows(() => uncropped("five_crop", data(more))),
    );
  }
});

Deno.test("views are refused for what can't be mirrored or cut", () => {
  const cases: Record<string, [Views, Source]> = {
    "a table": ["flips", source([12])],
    winds: ["flips", source([2, 4, 4], { vectors: { input: [[0, 1]], target: [], sense: 1 } })],
    "a map in crops": [
      "ten_crop",
      source([2, 4, 4], { target: { shape: [4, 4] }, facts: { task: "segmentation" } }),
    ],
  };
  for (const [name, [wanted, of]] of Object.entries(cases)) {
    assertRefusal("usage", `core/predict/views: ${name}`, assertThrows(() => viewsOf(wanted, of, 3)));
  }
});
