import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import * as ops from "../../../../core/models/user/ops.ts";
import { backward, gradSlotOf, requireGrad, takeGrad } from "../../../../ffi/autograd.ts";
import { NativeError } from "../../../../ffi/errors.ts";
import { liveTensors, scope, Tensor } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { sentenceNamed } from "../../../sentences.ts";

useLibtorch();

const values = (t: Tensor) => [...ops.toNumbers(t)];
const refused = (call: () => unknown, ...parts: string[]) => {
  const error = assertThrows(call, NativeError);
  for (const part of parts) assert(error.message.includes(part), error.message);
};

Deno.test("a number stands for a tensor where PyTorch takes one, and leaves the result's type as it is", () =>
  scope(() => {
    const x = ops.tensor([1, 2, 4]);
    assertEquals(values(ops.mul(x, 2)), [2, 4, 8]);
    assertEquals(values(ops.add(x, 0.5)), [1.5, 2.5, 4.5]);
    assertEquals(values(ops.sub(x, 1)), [0, 1, 3]);
    assertEquals(values(ops.div(x, 4)), [0.25, 0.5, 1]);
    assertEquals(values(ops.pow(x, 2)), [1, 4, 16]);
    assertEquals(values(ops.gt(x, 1.5)), [0, 1, 1]);
    assertEquals(values(ops.maximum(x, 3)), [3, 3, 4]);
    const whole = ops.tensor(Int32Array.of(1, 2));
    assertEquals([ops.mul(whole, 2).dtype, ops.mul(whole, 0.5).dtype, ops.mul(x, 2).dtype], [
      "i32",
      "f32",
      "f32",
    ]);
    const half = ops.toDtype(x, "bf16");
    assertEquals([ops.mul(half, 2).dtype, ops.add(half, 0.5).dtype], ["bf16", "bf16"]);
  }));

Deno.test("gradients pass through an operation with a number", () => {
  const x = requireGrad(ops.tensor([1, 2, 3]));
  scope(() => {
    backward(ops.sum(ops.mul(ops.pow(x, 2), 3)));
    assertEquals(values(takeGrad(gradSlotOf(x))), [6, 12, 18]);
  });
  x.free();
});

// The registry of operations stays open for the life of the process.
const staysOpen = { sanitizeResources: false };

Deno.test(
  "any operation of libtorch is found by its name, its arguments in order or by name",
  staysOpen,
  () =>
    scope(() => {
      const x = ops.tensor([[1, 2], [3, 4]]);
      const logsumexp = ops.op("logsumexp");
      const expected = [1, 3].map((low) => Math.log(Math.exp(low) + Math.exp(low + 1)));
      for (
        const found of [
          logsumexp(x, [1]),
          logsumexp(x, { dim: [1] }),
          ops.op("aten::logsumexp")(x, [1], false),
        ]
      ) {
        values(found).forEach((value, i) => assertAlmostEquals(value, expected[i], 1e-6));
      }
      assertEquals(logsumexp(x, [1], { keepdim: true }).shape, [2, 1]);
      assertEquals(values(ops.op("einsum")("ij,jk->ik", [x, x])), [7, 10, 15, 22]);
      assertEquals(values(ops.op("clamp")(x, { min: 2, max: 3 })), [2, 2, 3, 3]);
      assertEquals(values(ops.op("remainder.Tensor")(x, 2)), [1, 0, 1, 0]);
      const [largest, where] = ops.op<[Tensor, Tensor]>("max.dim")(x, 1);
      assertEquals([values(largest), values(where)], [[2, 4], [1, 1]]);
    }),
);

Deno.test("a name that libtorch does not have, or has with an overload, is refused with what there is", () => {
  refused(() => ops.op("logsumexpp"), "logsumexpp: this libtorch has no such operation");
  refused(() => ops.op("mul"), sentenceNamed("core/models/user/op: libtorch such operation"));
});

Deno.test("an argument that does not fit is named, with what the operation takes, and leaves no tensor behind", () => {
  const x = ops.tensor([1, 2, 3]), live = liveTensors();
  const wrong = <T>(value: unknown) => value as T;
  refused(() => ops.relu(wrong(2)), sentenceNamed("core/models/user/op: relu self arguments"));
  refused(() => ops.mul(x, wrong("two")), 'other is "two"', "mul.Tensor(Tensor self, Tensor other)");
  refused(() => ops.mul(x, wrong(undefined)), "other is left out");
  refused(() => ops.matmul(wrong(null), x), "self is null");
  refused(() => ops.reshape(x, wrong(3)), "shape is 3");
  refused(() => ops.reshape(x, [1.5, 2]), "shape is [1.5,2]");
  refused(() => ops.softmax(x, 0.5), "dim is 0.5");
  refused(() => ops.toDtype(x, wrong("float32")), 'dtype is "float32"');
  refused(() => ops.cat(wrong(x)), "tensors is a tensor");
  refused(() => ops.op("logsumexp")(x), "dim is missing: logsumexp(");
  refused(() => ops.op("addmm")(x, "x", x), 'mat1 is "x", and no tensor: addmm(');
  refused(() => ops.op("logsumexp")(x, { dims: [0] }), "it takes no argument dims");
  assertEquals(liveTensors(), live);
  x.free();
});

Deno.test("whatever makes a tensor takes its type and device alike, by name", () =>
  scope(() => {
    const like = { dtype: "f64", device: "cpu" } as const;
    const x = ops.ones([2], like);
    const made = [
      ops.zeros([2], like),
      ops.empty([2], like),
      ops.rand([2], like),
      ops.randn([2], like),
      ops.tensor([1, 2], null, like),
      ops.zerosLike(ops.ones([2]), like),
      ops.onesLike(ops.ones([2]), like),
      ops.toCopy(ops.ones([2]), like),
    ];
    for (const t of [x, ...made]) assertEquals([t.dtype, t.device, t.shape], ["f64", "cpu", [2]]);
    assertEquals([ops.randint(0, 3, [4]).dtype, ops.randint(0, 3, [4], { dtype: "i32" }).dtype], [
      "i64",
      "i32",
    ]);
  }));

Deno.test("nested arrays are a tensor of their shape, and uneven ones are refused", () =>
  scope(() => {
    assertEquals(ops.tensor([[1, 2, 3], [4, 5, 6]]).shape, [2, 3]);
    assertEquals(ops.tensor([[[1], [2]]]).shape, [1, 2, 1]);
    refused(() => ops.tensor([[1, 2], [3]]), "its rows have different lengths");
  }));

Deno.test("numbers that change from step to step do not fill memory", () => {
  const x = ops.ones([1]);
  scope(() => {
    for (let i = 0; i < 5000; i++) ops.mul(x, i + 0.25);
  });
  const live = liveTensors();
  scope(() => {
    for (let i = 5000; i < 6000; i++) ops.mul(x, i + 0.25);
  });
  assertEquals(liveTensors(), live);
  x.free();
});
