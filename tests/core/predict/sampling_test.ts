// Tokens are drawn as often as PyTorch's softmax of the kept scores says.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { key, uniform } from "../../../core/base/random.ts";
import { sampler, type TokenSampling } from "../../../core/predict/generate.ts";

const PLAIN: TokenSampling = { temperature: 1, topK: 0, topP: 1, seed: 3 };
const draw = uniform(key(1, "scores"));
const SCORES = Float32Array.from({ length: 40 }, (_, i) => i % 7 === 0 ? 2 : 5 * draw(i));

/** The shares by the definition: temperature, then the likeliest, then those that have the share together. */
function expected({ temperature, topK, topP }: TokenSampling): number[] {
  const order = [...SCORES.keys()].sort((a, b) => SCORES[b] - SCORES[a] || a - b);
  const top = topK > 0 ? order.slice(0, topK) : order;
  const shares = top.map((i) => Math.exp(SCORES[i] / temperature)), all = shares.reduce((a, b) => a + b);
  let sum = 0;
  const kept = top.filter((_, i) => (sum += shares[i]) - shares[i] < topP * all);
  const left = kept.reduce((total, _, i) => total + shares[i], 0);
  return [...SCORES.keys()].map((i) => kept.includes(i) ? shares[kept.indexOf(i)] / left : 0);
}

Deno.test("tokens are drawn by their shares, among the likeliest alone", () => {
  const N = 8000;
  const all: Partial<TokenSampling>[] = [{}, { temperature: 0.5 }, { topK: 5 }, { topP: 0.6 }, {
    topK: 12,
    topP: 0.5,
  }, { topK: 99 }];
  for (const change of all) {
    const sampling = { ...PLAIN, ...change }, next = sampler(sampling, 1);
    const counts = new Float64Array(SCORES.length);
    for (let step = 0; step < N; step++) counts[next(SCORES, 0, step)]++;
    expected(sampling).forEach((share, i) => {
      const off = Math.abs(counts[i] / N - share);
      assert(
        off <= 5 * Math.sqrt(share / N),
        `${JSON.stringify(change)}: token ${i}: ${counts[i] / N}, not ${share}`,
      );
    });
  }
});

Deno.test("no temperature takes the first of the likeliest; a share of nothing keeps one; scores that are not finite are refused", () => {
  assertEquals(sampler({ ...PLAIN, temperature: 0 }, 1)(Float32Array.of(1, 3, 3, 2), 0, 0), 1);
  assertEquals(sampler({ ...PLAIN, topP: 0 }, 1)(Float32Array.of(1, 3, 3, 2), 0, 0), 1);
  for (const bad of [NaN, Infinity]) {
    assertThrows(() => sampler(PLAIN, 1)(Float32Array.of(1, bad, 2), 0, 0), Error, "are not finite numbers");
  }
});
