import { assertEquals } from "@std/assert";
import { POINTWISE } from "../../../../core/compile/graph.ts";
import { type GroupKernel, VECTOR_FUNCTIONS, type VectorKernel } from "../../../../core/compile/kernel.ts";
import { readBytes, tensor } from "../../../../ffi/make.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { ISAS, runKernels, strided } from "./harness.ts";
import { groupOf, type OpRun, wrongOps } from "./each_op.ts";
import { draws, SPECIAL, TORCH } from "./torch_ops.ts";

useLibtorch();

for (const isa of ISAS) {
  Deno.test(`each op of ${isa} is libtorch's, or nearer to the true value than its bound, with NaN and infinities`, () => {
    const run = ({ group, slots }: OpRun) => runKernels([group], isa, slots).at(-1) as Float32Array;
    assertEquals(wrongOps((runs) => runs.map(run)), []);
  });

  Deno.test(`whole numbers and truth values are read by ${isa}, side by side and apart`, () => {
    const n = 53;
    const labels = BigInt64Array.from({ length: 3 * n }, (_, i) => BigInt(i % 5 - 2) * 100_003n);
    const truths = Uint8Array.from({ length: 3 * n }, (_, i) => i % 3 === 0 ? 1 : 0);
    for (const stride of [0, 1, 3]) {
      const stage = {
        instructions: [
          { op: "load" as const, from: strided(0, [stride], 0, "i64") },
          { op: "load" as const, from: strided(1, [stride], 0, "bool") },
          { op: "number" as const, value: -200_006 },
          { op: "eq", args: [0, 2] },
          { op: "or", args: [1, 3] },
          { op: "where", args: [4, 0, 1] },
          { op: "float", args: [5] },
        ],
        stores: [{ value: 6, to: strided(2, [1]) }],
        reductions: [],
      };
      const group: GroupKernel = { kernel: "group", name: "labels", sizes: [n], stages: [stage] };
      const used = stride * (n - 1) + 1;
      const [, , out] = runKernels([group], isa, [
        labels.slice(0, used),
        truths.slice(0, used),
        new Float32Array(n),
      ]);
      const wanted = Float32Array.from({ length: n }, (_, i) => {
        const label = Number(labels[i * stride]), truth = truths[i * stride];
        return truth || label === -200_006 ? label : truth;
      });
      assertEquals(out, wanted);
    }
  });

  Deno.test(`exact functions of ${isa} have libtorch's bits`, () => {
    const random = draws(7),
      x = Float32Array.from({ length: 4099 }, () => (random() - 0.5) * 10 ** (random() * 4 - 2));
    const y = x.map(() => (random() - 0.5) * 8);
    const differing = (["expm1", "log1p", "sigmoid", "rsqrt", "pow"] as const).filter((op) =>
      scope(() => {
        const columns = [x, y].slice(0, POINTWISE[op]);
        const group = groupOf(op, columns.length, x.length, true);
        const mine = runKernels([group], isa, [...columns, new Float32Array(x.length)]).at(
          -1,
        ) as Float32Array;
        const theirs = new Float32Array(
          readBytes(TORCH[op](...columns.map((column) => tensor(column)))).buffer,
        );
        return mine.some((value, i) => value !== theirs[i] && !Number.isNaN(theirs[i]));
      })
    );
    assertEquals(differing, []);
  });
}

Deno.test("functions of many numbers have libtorch's bits, at any count and with special numbers", () => {
  const random = draws(11), differing: string[] = [];
  for (const elements of [1, 3, 8, 17, 100, 4099]) {
    const x = Float32Array.from({ length: elements }, () => (random() - 0.4) * 10 ** (random() * 6 - 3));
    SPECIAL.slice(0, elements - 1).forEach((value, i) => x[i] = value);
    for (const name of VECTOR_FUNCTIONS) {
      const kernel: VectorKernel = {
        ...{ kernel: "vector", name, function: name, elements },
        ...{ from: { slot: 0, offset: 2 }, to: { slot: 1, offset: 0 } },
      };
      const before = new Float32Array(elements + 2);
      before.set(x, 2);
      const [, mine] = runKernels([kernel], ISAS[0], [before, new Float32Array(elements)]) as Float32Array[];
      const theirs = scope(() => new Float32Array(readBytes(TORCH[name](tensor(x))).buffer));
      if (mine.some((value, i) => value !== theirs[i] && !(Number.isNaN(value) && Number.isNaN(theirs[i])))) {
        differing.push(`${name} of ${elements}`);
      }
    }
  }
  assertEquals(differing, []);
});
