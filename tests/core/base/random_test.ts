// Keyed randomness: bijections, uniformity, independence of keys.
import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { key, MOST_POSITIONS, permutation, uniform, uniformInt } from "../../../core/base/random.ts";

/** Pearson's statistic in standard deviations from its mean: beyond 5 the counts are not uniform. */
function surprise(counts: ArrayLike<number>): number {
  const all = Array.from(counts);
  const expected = all.reduce((a, b) => a + b, 0) / all.length;
  const chi2 = all.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
  return Math.abs(chi2 - (all.length - 1)) / Math.sqrt(2 * (all.length - 1));
}

Deno.test("the same parts give the same key, and any other part another", () => {
  assertEquals(key(1, "order", 2), key(1, "order", 2));
  const keys = [
    key(0),
    key(1),
    key(1, "a"),
    key(1, "a", 0),
    key(1, "a", 1),
    key(1, "a", "1"),
    key(1, 1, "a"),
    key(1, "a", -1),
    key(1, "a", 0.5),
    key(1, "a", 2 ** 53 - 1),
    key(1, "a", 2 ** 53 - 2),
    key(1, "ab"),
    key(1, "a", "b"),
  ];
  assertEquals(new Set(keys).size, keys.length);
  assertEquals(key(1, "a", -0), key(1, "a", 0));
  assert(keys.every((k) => k >= 0n && k < 1n << 64n));
});

Deno.test("the mixing is splitmix64: the key of seed 0 is the published first output of state 0", () => {
  assertEquals(key(0), 0xe220a8397b1dcdafn);
});

Deno.test("permute is a bijection for every size up to 2000", () => {
  for (let n = 1; n <= 2000; n++) {
    const at = permutation(n, key(n, "test"));
    const seen = new Uint8Array(n);
    for (let i = 0; i < n; i++) seen[at(i)]++;
    assert(seen.every((count) => count === 1), `size ${n}`);
  }
});

Deno.test("permute is a bijection for large sizes, beside powers of two as well", () => {
  for (const n of [2 ** 16 - 1, 2 ** 16, 2 ** 16 + 1, 100_003, 1_000_000]) {
    const at = permutation(n, key(5, "test"));
    const seen = new Uint8Array(n);
    for (let i = 0; i < n; i++) seen[at(i)]++;
    assert(seen.every((count) => count === 1), `size ${n}`);
  }
});

Deno.test("permute stays in range for the largest size", () => {
  const at = permutation(MOST_POSITIONS, key(5, "test"));
  const values = new Set<number>();
  for (let i = 0; i < 50_000; i++) values.add(at(MOST_POSITIONS - 1 - i * 40_000));
  assertEquals(values.size, 50_000);
  assert([...values].every((value) => Number.isInteger(value) && value >= 0 && value < MOST_POSITIONS));
});

Deno.test("over many keys every position holds every value equally often", () => {
  for (const n of [3, 10, 100]) {
    const counts = new Uint32Array(n * n);
    for (let k = 0; k < 20_000; k++) {
      const at = permutation(n, key(k, "uniformity"));
      for (const i of [0, 1, n - 1]) counts[i * n + at(i)]++;
    }
    for (const i of [0, 1, n - 1]) {
      const row = counts.subarray(i * n, (i + 1) * n);
      assert(surprise(row) < 5, `size ${n}, position ${i}: ${surprise(row)}`);
    }
  }
});

Deno.test("neighbours do not stay neighbours", () => {
  const n = 10_000;
  const at = permutation(n, key(1, "neighbours"));
  const bins = new Uint32Array(100);
  for (let i = 1; i < n; i++) bins[Math.floor(((at(i) - at(i - 1) + n) % n) / 100)]++;
  assert(surprise(bins) < 5, String(surprise(bins)));
});

Deno.test("another key gives another permutation, with about one fixed point in common", () => {
  const n = 5000;
  const a = permutation(n, key(1, "order", 0)), b = permutation(n, key(1, "order", 1));
  let same = 0;
  for (let i = 0; i < n; i++) same += Number(a(i) === b(i));
  assert(same < 10, String(same));
});

Deno.test("permute refuses a position outside and a size it can't hold", () => {
  assertThrows(() => permutation(3, 1n)(3), Error, "position 3 of 3");
  assertThrows(() => permutation(0, 1n)(0), Error, "position 0 of 0");
  assertThrows(() => permutation(2 ** 31, 1n), Error, "2147483648 positions");
});

Deno.test("uniform numbers are uniform, one by one and in pairs", () => {
  const at = uniform(key(9, "uniform"));
  const single = new Uint32Array(256), pairs = new Uint32Array(256);
  for (let i = 0; i < 100_000; i++) {
    const u = at(i);
    assert(u >= 0 && u < 1);
    single[Math.floor(u * 256)]++;
    pairs[Math.floor(u * 16) * 16 + Math.floor(at(i + 1) * 16)]++;
  }
  assert(surprise(single) < 5, String(surprise(single)));
  assert(surprise(pairs) < 5, String(surprise(pairs)));
});

Deno.test("uniform numbers depend on the key and on every bit of the index", () => {
  const at = uniform(key(9, "uniform"));
  assertNotEquals(at(1), uniform(key(9, "other"))(1));
  assertNotEquals(at(1), at(1 + 2 ** 32));
  assertNotEquals(at(2 ** 52), at(2 ** 52 + 1));
});

Deno.test("uniformInt covers its range", () => {
  const at = uniformInt(key(3, "int"), 7);
  const counts = new Uint32Array(7);
  for (let i = 0; i < 7000; i++) counts[at(i)]++;
  assert(surprise(counts) < 5);
});
