// Samples that come several times in an epoch, of data in memory: with other draws, and with what is known of each.
import { assert, assertEquals } from "@std/assert";
import { listOf } from "../../../../core/data/augment/list.ts";
import { AS_IT_IS } from "../../../../core/data/source/geometry.ts";
import { memorySource } from "../../../../core/data/source/memory.ts";
import { openSampling } from "../../../../core/data/source/sampling.ts";
import { batchOf, plainPart, type Source } from "../../../../core/data/source/source.ts";
import { cropped } from "../../../../core/data/transforms/crop.ts";
import { tensor, toNumbers } from "../../../../ffi/make.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { open } from "../../train/rig.ts";

open();

/** Five of eight rows are samples; each row has its number everywhere. */
const ROWS = Int32Array.of(6, 1, 4, 3, 0), TIMES = 3;

function several(more: Partial<Source> = {}, rows: Int32Array | null = ROWS): Source {
  const whole = memorySource({
    ...{ name: "made", task: "classification", outputs: 2, description: "" },
    input: tensor(Float32Array.from({ length: 8 * 12 }, (_, i) => Math.floor(i / 12)), [8, 3, 2, 2]),
    target: tensor(BigInt64Array.from({ length: 8 }, (_, i) => BigInt(i % 2))),
    rows: rows ?? undefined,
  });
  const steps = listOf("horizontal_flip")!.steps;
  return cropped({ ...whole, ...more }, AS_IT_IS, 7, { ignored: NaN, times: TIMES, steps });
}

Deno.test("a sample in memory comes as often as it is asked for, and in no other one's place", () => {
  for (const rows of [ROWS, null]) {
    const source = several({}, rows), samples = rows ?? Int32Array.from({ length: 8 }, (_, i) => i);
    assertEquals(source.length, TIMES * samples.length);
    const ids = Array.from({ length: source.length }, (_, id) => id);
    const [inputs, targets] = scope(() => {
      const { input, target } = batchOf(source, plainPart(ids, 1));
      return [[...toNumbers(input)], [...toNumbers(target)]];
    });
    assertEquals(inputs, ids.flatMap((id) => Array(12).fill(samples[id % samples.length])));
    assertEquals(targets, ids.map((id) => samples[id % samples.length] % 2));
  }
});

const drawn = (source: Source, sampling: string): number[] =>
  Array.from({ length: 40 }, (_, epoch) => {
    const { length, at } = openSampling({ sampling, shuffle: true }, 5, source).of(epoch);
    return Array.from({ length }, (_, position) => at(position));
  }).flat();

Deno.test("samples that come several times are drawn by their weights, and their classes equally often", () => {
  const weights = several({ sampleWeights: Float64Array.of(0, 1, 0, 2, 0) });
  const labels = several({ labels: () => [0, 1, 0, 1, 0] });
  for (const [source, sampling] of [[weights, "weights:w"], [labels, "balanced"]] as const) {
    const ids = drawn(source, sampling),
      share = (of: (id: number) => boolean) => ids.filter(of).length / ids.length;
    for (let time = 0; time < TIMES; time++) {
      const own = share((id) => Math.floor(id / ROWS.length) === time);
      assert(Math.abs(own - 1 / TIMES) < 0.08, `${sampling}: time ${time} has ${own}`);
    }
    const second = share((id) => [1, 3].includes(id % ROWS.length));
    assert(Math.abs(second - (source === weights ? 1 : 0.5)) < 0.04, `${sampling}: ${second}`);
  }
});
