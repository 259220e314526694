import { assertEquals, assertMatch } from "@std/assert";

const program = new URL("stderr_program.ts", import.meta.url).pathname;

function run(...args: string[]): { out: string[]; err: string[] } {
  const { stdout, stderr } = new Deno.Command(Deno.execPath(), {
    args: ["run", "--allow-all", "--no-check", "--quiet", program, ...args],
    env: { NO_COLOR: "1" },
  }).outputSync();
  const lines = (bytes: Uint8Array) => new TextDecoder().decode(bytes).trimEnd().split("\n");
  return { out: lines(stdout), err: lines(stderr) };
}

const own = [
  "before",
  ...["dispatcher", "backward", "sum", "item", "itemBigInt", "fill", "leaf"].map((name) => `after ${name}`),
  "from a child",
];

Deno.test("what libtorch says of a refused call is in the error, and nothing of it on stderr", () => {
  const { out, err } = run();
  assertEquals(err, own, "stderr holds the program's own lines, all of them, and no others");
  const reasons = [
    /^dispatcher: mm\(self f32\[2\], mat2 f32\[2\]\): .*self must be a matrix/,
    /^backward: _backward\(self f32\[1\].*\): element 0 of tensors does not require grad/,
    /^sum: add\(f32\[2\], f32\[3\]\): The size of tensor a \(2\) must match/,
    /^item: item\(f32\[2\]\): a Tensor with 2 elements cannot be converted/,
    /^itemBigInt: item\(f32\[2\]\): a Tensor with 2 elements cannot be converted/,
    /^fill: fill_\(f32\[1\]\): a leaf Variable that requires grad is being used in an in-place/,
    /^leaf: requireGrad\(i32\[1\]\): .*floating point/i,
  ];
  assertEquals(out.length, reasons.length, out.join("\n"));
  reasons.forEach((reason, i) => assertMatch(out[i], reason));
});

Deno.test("warnings of libtorch's own still reach stderr, before a refused call and after", () => {
  const { err } = run("warn");
  const [warnings, rest] = [true, false].map((yes) =>
    err.filter((line) => line.includes("Warning: ") === yes)
  );
  assertEquals(rest, own);
  assertEquals(warnings.length, 2);
  assertMatch(warnings[0], /degrees of freedom is <= 0/);
});
