// Gradients beside each other: as they are, and shortened.
import { assert, assertEquals } from "@std/assert";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import {
  digestOf,
  gradientDifferences,
  type Gradients,
  gradientsIn,
  haveSameBits,
  shortenedGradients,
} from "../../../core/train/compared_gradients.ts";
import { fill_, tensor, writeBytes } from "../../../ffi/make.ts";
import { open, rig, rows } from "./rig.ts";

open();

const { arena } = rig(mlp({ inputs: 300, hidden: 100, layers: 1, outputs: 1 }), rows);
const drawn = Float32Array.from({ length: arena.gradient.numel }, (_, i) => Math.sin(i * i % 10_007));

/** Of the arena's gradients with these numbers. */
function with_<R>(numbers: Float32Array<ArrayBuffer>, body: (all: Gradients, few: Gradients) => R): R {
  writeBytes(arena.gradient, new Uint8Array(numbers.buffer));
  const few = shortenedGradients(arena), copy = tensor(numbers);
  try {
    return body(gradientsIn(arena, copy), few);
  } finally {
    few.values.free();
    copy.free();
  }
}

Deno.test("shortened gradients are few, and as far from each other as the gradients are", () => {
  const [large] = arena.starts, { numel } = arena.parameters[0];
  for (
    const [name, change] of Object.entries({
      "one number": (x: number, i: number) => i === 4321 ? x + 5 : x,
      "each number": (x: number, i: number) => x * (1 + 0.01 * Math.cos(i * 7)),
      "what sums to zero": (x: number, i: number) => x + (i % 2 === 0 ? 0.1 : -0.1),
    })
  ) {
    const other = drawn.map((x, i) => i >= large && i < large + numel ? change(x, i) : x);
    with_(drawn, (all, few) => {
      assert(few.values.numel < arena.gradient.numel / 20, String(few.values.numel));
      with_(other, (otherAll, otherFew) => {
        assert(haveSameBits(few, few) && !haveSameBits(few, otherFew), name);
        const exact = gradientDifferences(otherAll, all), close = gradientDifferences(otherFew, few);
        assertEquals(exact.slice(1).map(({ error }) => error), exact.slice(1).map(() => 0));
        for (const key of ["error", "size"] as const) {
          const ratio = close[0][key] / exact[0][key];
          assert(ratio > 0.5 && ratio < 2, `${name}: ${key} ${ratio}`);
        }
      });
    });
  }
  fill_(arena.gradient, 0);
});

Deno.test("a NaN that both have is no difference, and one that only one has is one", () => {
  const spoilt = drawn.with(3, NaN) as Float32Array<ArrayBuffer>, [first] = arena.starts;
  with_(spoilt, (all) => {
    assertEquals(gradientDifferences(all, all)[0].error, 0);
    with_(drawn, (whole) => assert(Number.isNaN(gradientDifferences(all, whole)[0].error), String(first)));
  });
});

Deno.test("each bit of each parameter's gradient is in the digest", () => {
  const words = new Uint32Array(drawn.buffer);
  const digest = (changed: number, bit: number): string => {
    words[changed] ^= bit;
    writeBytes(arena.gradient, new Uint8Array(drawn.buffer));
    words[changed] ^= bit;
    return digestOf(arena).digest;
  };
  const right = digest(0, 0);
  for (const [i, start] of arena.starts.entries()) {
    for (const at of [start, start + arena.parameters[i].numel - 1]) {
      for (const bit of [1, 1 << 22, 1 << 31]) {
        assert(digest(at, bit) !== right, `${arena.names[i]} ${at} ${bit}`);
      }
    }
  }
  assertEquals(digest(0, 0), right);
  fill_(arena.gradient, 0);
});
