import { assertEquals, assertNotEquals } from "@std/assert";
import { gpt } from "../../../core/models/zoo/gpt.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import { simpleConvnet } from "../../../core/models/zoo/convnets.ts";
import { vit } from "../../../core/models/zoo/vit.ts";
import { keyedSeeds } from "../../../core/train/blocks.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { randn } from "../../../ffi/ops.ts";
import { open } from "./rig.ts";

open();

const sizes = { inputs: 3, hidden: 4, layers: 1, outputs: 1 };
const drawn = () => Array.from(toNumbers(randn([8])));

Deno.test("a block draws the same numbers each time it runs, and others in another step, share, micro-batch or block", () => {
  const seeds = keyedSeeds(mlp({ ...sizes, dropout: 0.5 }), 1)!;
  const at = ([step, share, micro, block]: number[]) => {
    Object.assign(seeds, { step, share, micro });
    seeds.seed(block);
    return drawn();
  };
  const first = at([5, 3, 1, 2]);
  for (const other of [[6, 3, 1, 2], [5, 0, 1, 2], [5, 3, 0, 2], [5, 3, 1, 3], [5, 1, 3, 2]]) {
    assertNotEquals(at(other), first);
  }
  assertEquals(at([5, 3, 1, 2]), first);
});

Deno.test("another seed draws other numbers", () => {
  const [one, two] = [1, 2].map((seed) => {
    keyedSeeds(mlp({ ...sizes, dropout: 0.5 }), seed)!.seed(0);
    return drawn();
  });
  assertNotEquals(one, two);
});

Deno.test("models with dropout are seeded, those without are left alone", () => {
  const transformer = { layers: 1, heads: 2, embed: 8, dropout: 0.1 };
  const image = { channels: 1, height: 8, width: 8, outputs: 2 };
  const seeded = (model: Parameters<typeof keyedSeeds>[0]) => keyedSeeds(model, 1) !== null;
  assertEquals(seeded(gpt({ vocabulary: 5, context: 4, ...transformer })), true);
  assertEquals(seeded(vit({ ...image, patch: 4, ...transformer })), true);
  assertEquals(seeded(simpleConvnet(image)), true);
  assertEquals(seeded(simpleConvnet({ ...image, dropout: 0 })), false);
  assertEquals(seeded(mlp(sizes)), false);
});
