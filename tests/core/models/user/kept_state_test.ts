// Code that keeps something from one call to the next is told from code that does not.
import { assertEquals } from "@std/assert";
import { transformSync } from "../../../../deps/amaro.ts";
import { keptState } from "../../../../core/models/user/kept_state.ts";

/** Its `line` and what stands there, or null. */
const kept = (js: string) => keptState([{ path: "net.ts", js }]);

const model = (body: string, before = "") =>
  `export default function ({ nn, ops, settings }) {
  ${before}
  class Net extends nn.Module {
    fc = this.child("fc", new nn.Linear(4, 1));
    forward(x) {
      ${body}
    }
  }
  return new Net();
}`;

Deno.test("examples and templates keep nothing", () => {
  const root = new URL("../../../../", import.meta.url);
  for (
    const path of [
      "examples/icenet.ts",
      "examples/cosmology.ts",
      "core/models/user/templates/model.ts",
      "core/models/user/templates/loss.ts",
    ]
  ) {
    const source = Deno.readTextFileSync(new URL(path, root));
    assertEquals(kept(transformSync(source, { mode: "strip-only" }).code), null, path);
  }
});

Deno.test("what is made anew in each call is not kept", () => {
  for (
    const body of [
      "return this.fc.forward(x);",
      "for (const scale of [1, 2]) x = ops.mul(x, scale); return x;",
      "let y = x; for (let i = 0; i < 3; i++) y = ops.add(y, x); return y;",
      "const half = (t, by = 2) => ops.div(t, by); return half(x);",
      "const a = 1, b = 2; return ops.mul(x, a + b);",
      "const parts = [1, 2].map((i) => ops.mul(x, i)); return ops.cat(parts, 1);",
      'const { a, b } = { a: x, b: "calls = 1" }; return a === b ? a : b; // count++',
      "if (x.shape[0] >= 4 && x.shape[1] != 3) { const y = ops.add(x, x); return y; } return x;",
    ]
  ) assertEquals(kept(model(body)), null, body);
  assertEquals(kept("let table = 1;\ntable += 2;\n" + model("return ops.mul(x, table);")), null);
});

Deno.test("what outlives a call, or comes from elsewhere, is named with its line", () => {
  const cases: readonly (readonly [body: string, before?: string])[] = [
    ["if (++calls > 100) return x; return ops.mul(x, 2);", "let calls = 0;"],
    ["calls += 1; return x;", "let calls = 0;"],
    ["calls = calls + 1; return x;", "let calls = 0;"],
    ["const now = calls = 1; return x;", "let calls = 0;"],
    ["this.calls = 1; return x;"],
    ["this.calls++; return x;"],
    ["++this.calls; return x;"],
    ["this.cache ??= ops.mul(x, 2); return this.cache;"],
    ["seen.push(1); return x;", "const seen = [];"],
    ["seen[0] = 1; return x;", "const seen = [];"],
    ["seen.n = 1; return x;", "const seen = {};"],
    ["[1].map((i) => total = i); return x;", "let total = 0;"],
    ["const tick = () => { total++; }; tick(); return x;", "let total = 0;"],
    ["({ n } = x); return x;", "let n = 0;"],
    ["return ops.mul(x, Math.random());"],
    ["return ops.mul(x, Date.now());"],
    ["return ops.mul(x, Deno.args.length);"],
    ["return ops.mul(x, draws.next().value);", "const draws = [1, 2][Symbol.iterator]();"],
    ["console.log(x.shape); return x;"],
    ["return `${calls++}` ? x : x;", "let calls = 0;"],
    ['return /"/.test(name) ? x : x;', 'const name = "";'],
  ];
  for (const [body, before] of cases) {
    const line = kept(model(body, before));
    assertEquals(line?.replace(/ .*/, ""), "net.ts:6", `${body}: ${line}`);
  }
  const count = "const make = (count) => ({ forward: (x) => { count = count + 1; return x; } });";
  assertEquals(kept(model("return x;", count))?.replace(/ .*/, ""), "net.ts:2");
});
