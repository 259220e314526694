// Particles to density and maps: nothing is lost, and each goes where it is.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { density, densitySheet, normalNumbers } from "../fields.ts";
import { project } from "../simulation.ts";
import { add, fill_, scale, tensor, zeros } from "../../../ffi/make.ts";
import { select } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../../tests/libtorch.ts";
import { meanOf } from "./measure.ts";

useLibtorch();

Deno.test("particles that stay give a uniform density, also after a common move", () => {
  scope(() => {
    const still = zeros([3, 8, 8, 8]);
    assert(density(still).every((x) => x === 1));
    fill_(select(still, 0, 0), 13.25);
    fill_(select(still, 0, 2), -900.5);
    assert(density(still).every((x) => x === 1));
  });
});

Deno.test("however far they fly, mass is kept, and a cloud in a shot is as wide as a cell", () => {
  scope(() => {
    const n = 16, far = scale(tensor(normalNumbers(3n, 3 * n ** 3), [3, n, n, n]), 50);
    const rho = density(far);
    assertAlmostEquals(meanOf(rho), 1, 1e-6);
    assert(rho.every((x) => x >= 0));
    // One particle an average cell, spread over 8 cells: the sum of squared weights is (2/3)^3.
    assertAlmostEquals(meanOf(rho, 2) - 1, (2 / 3) ** 3, 0.05);
  });
});

Deno.test("a single particle's mass is where it went, across the edge of the box", () => {
  scope(() => {
    const n = 4, moves = new Float32Array(3 * n ** 3);
    moves[0] = -0.75; // of the particle in the middle of cell 0, 0, 0: to -0.25
    const rho = density(tensor(moves, [3, n, n, n]));
    const at = (x: number, y: number, z: number) => rho[(x * n + y) * n + z];
    // It was a half in planes 0 and 1 each, and is now a quarter in plane 3 and three quarters in plane 0.
    assertAlmostEquals(at(3, 0, 0), 1 + 0.25 / 4, 1e-6);
    assertAlmostEquals(at(0, 0, 0), 1 + 0.25 / 4, 1e-6);
    assertAlmostEquals(at(1, 1, 1), 1 - 0.5 / 4, 1e-6);
    assertAlmostEquals(at(2, 0, 0), 1, 1e-6);
  });
});

Deno.test("maps are the means of slabs along the first axis", () => {
  const n = 4, values = Float32Array.from({ length: n ** 3 }, (_, i) => i);
  const maps = project(values, n, 2);
  assertEquals(maps.length, 2 * n * n);
  assertEquals(maps[5], (5 + 16 + 5) / 2);
  assertEquals(maps[16 + 5], (32 + 5 + 48 + 5) / 2);
  assertAlmostEquals(meanOf(project(values, n, 1)), meanOf(values));
});

Deno.test("a sheet is the density along an axis, less its mean", () => {
  scope(() => {
    const n = 8, draw = (seed: bigint) => scale(tensor(normalNumbers(seed, 3 * n ** 3), [3, n, n, n]), 3);
    const one = draw(1n), two = draw(2n);
    const whole = density(add(one, scale(two, 0.5)));
    const strides = [n * n, n, 1];
    for (const axis of [0, 1, 2]) {
      const found = densitySheet(one, two, [1, 0.5], axis);
      const [u, v] = strides.filter((_, other) => other !== axis);
      for (let i = 0; i < n * n; i++) {
        const at = Math.floor(i / n) * u + (i % n) * v;
        let sum = 0;
        for (let k = 0; k < n; k++) sum += whole[at + k * strides[axis]] / n;
        assertAlmostEquals(found[i], sum - 1, 1e-5);
      }
    }
  });
});
