// An op's result lies where it is wanted, if the op makes it of as many bytes; everything else lies where libtorch puts it.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { conv2d, mul, randn } from "../../ffi/ops.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { pagesOfProcess } from "../../ffi/machine_code.ts";
import { add, beginOf, memoryBlockOf, toNumbers, uninitialised, zeros } from "../../ffi/make.ts";

import { placing, type ResultMemory } from "../../ffi/result_places.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();
pagesOfProcess(Uint8Array.of(0)); // opens what is opened once
const ignore = Deno.build.arch !== "x86_64";

const SIZE = 4096, BYTES = 4 * SIZE;

/** With memory for so many results. */
function withMemory(
  count: number,
  body: (places: ResultMemory[], within: Within, memory: Tensor) => void,
): void {
  noGrad(() =>
    scope(() => {
      const memory = uninitialised([count * SIZE]), block = memoryBlockOf(memory);
      const places = Array.from({ length: count }, (_, i) => ({
        ...{ address: block.address + BigInt(i * BYTES), bytes: BYTES, skips: 0 },
      }));
      body(places, [block, { address: 0n, bytes: 0 }], memory);
    })
  );
}
type Within = Parameters<typeof placing>[1];

Deno.test({
  name: "a result lies in its place, which is there when the tensor is gone",
  ignore,
  fn() {
    withMemory(2, (places, within, memory) => {
      const a = randn([SIZE]), b = randn([SIZE]), right = [...toNumbers(add(a, b))];
      for (let round = 0; round < 1000; round++) {
        const sum = placing([places[1]], within, () => add(a, b));
        assertEquals(beginOf(sum), places[1].address);
        if (round === 0) assertEquals([...toNumbers(sum)], right);
        sum.free();
      }
      assertEquals([...toNumbers(memory)].slice(SIZE), right);
      assert(beginOf(add(a, b)) !== places[1].address);
    });
  },
});

Deno.test({
  name: "tensors of as many bytes take places in order, after those that are skipped; others have none",
  ignore,
  fn() {
    withMemory(2, (places, within) => {
      const made = (given: readonly ResultMemory[]) =>
        placing(given, within, () => [SIZE, SIZE + 1, SIZE, SIZE].map((size) => beginOf(zeros([size]))));
      const at = (given: readonly ResultMemory[]) =>
        made(given).map((begin) => places.findIndex(({ address }) => address === begin));
      assertEquals(at(places), [0, -1, 1, -1]);
      assertEquals(at([places[1]]), [1, -1, -1, -1]);
      assertEquals(at([{ ...places[0], skips: 1 }]), [-1, -1, 0, -1]);
      assertEquals(at([{ ...places[0], skips: 3 }]), [-1, -1, -1, -1]);
      assertEquals(at([]), [-1, -1, -1, -1]);
    });
  },
});

Deno.test({
  name: "an op that fails leaves no place behind",
  ignore,
  fn() {
    withMemory(1, (places, within) => {
      assertThrows(() => placing(places, within, () => mul(zeros([2]), zeros([3]))));
      assert(beginOf(zeros([SIZE])) !== places[0].address);
    });
  },
});

Deno.test({
  name: "oneDNN frees nothing that it made in a place",
  ignore,
  fn() {
    const images = keep(randn([4, 16, 8, 8])), kernels = keep(randn([16, 16, 3, 3])); // results have 4,096 numbers
    const convolve = () => conv2d(images, kernels, null, [1, 1], [1, 1]);
    withMemory(1, (places, within) => {
      const right = [...toNumbers(convolve())], taken = new Set<boolean>();
      for (let skips = 0; skips < 4; skips++) {
        for (let round = 0; round < 50; round++) {
          const result = placing([{ ...places[0], skips }], within, convolve);
          taken.add(beginOf(result) === places[0].address);
          if (round === 0) assertEquals([...toNumbers(result)], right);
          result.free();
        }
      }
      assert(taken.has(true), "the result was never placed");
    });
    for (const t of [images, kernels]) t.free();
  },
});
