import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { UseAfterFree } from "../../ffi/errors.ts";
import { ones, scalar, tensor, toNumbers, uninitialised, zeros } from "../../ffi/make.ts";
import { exp, toCopy, transpose, unbind } from "../../ffi/ops.ts";
import { describe, keep, liveTensors, scope, type Tensor } from "../../ffi/tensor.ts";
import { useLibtorch } from "../libtorch.ts";
import { assertSentence } from "../sentences.ts";

useLibtorch();

/** A test that fails when it leaves more or fewer tensors alive than it found. */
function exact(name: string, body: () => void): void {
  Deno.test(name, () => {
    const before = liveTensors();
    body();
    assertEquals(liveTensors(), before);
  });
}

const freed = (t: Tensor) => t.h === 0n;

exact("a scope frees what was made in it", () => {
  const made = scope(() => ({ inside: [zeros([2])].map((t) => () => t) })).inside[0]();
  assertEquals(freed(made), true);
});

exact("what a scope returns outlives it: alone, in an array, in an object, in an array of objects", () => {
  const alone = scope(() => exp(zeros([2])));
  const [a, b] = scope(() => [zeros([1]), exp(ones([1]))]);
  const { loss, parts } = scope(() => ({ loss: zeros([1]), parts: unbind(ones([2])) }));
  const [row] = scope(() => [{ t: zeros([1]) }]);
  const all = [alone, a, b, loss, ...parts, row.t];
  assertEquals(all.map(freed), all.map(() => false));
  assertEquals([...toNumbers(alone)], [1, 1]);
  all.forEach((t) => t.free());
});

exact("what an inner scope returns belongs to the outer one", () => {
  let inner!: Tensor, other!: Tensor;
  scope(() => {
    inner = scope(() => {
      other = zeros([1]);
      return exp(other);
    });
    assertEquals([freed(inner), freed(other)], [false, true]);
  });
  assertEquals(freed(inner), true);
});

exact("a kept tensor outlives every scope until it is freed", () => {
  let kept!: Tensor;
  scope(() =>
    scope(() => {
      kept = keep(zeros([1]));
    })
  );
  assertEquals(freed(kept), false);
  kept.free();
});

exact("a tensor made outside every scope lives until it is freed, once", () => {
  const before = liveTensors();
  const t = zeros([1]);
  assertEquals(liveTensors(), before + 1);
  t.free();
  t.free();
  assertEquals(liveTensors(), before);
});

exact("an exception frees everything made in the scopes it leaves", () => {
  const made: Tensor[] = [];
  scope(() => {
    made.push(zeros([1]));
    assertThrows(
      () =>
        scope(() => {
          made.push(zeros([1]));
          scope(() => {
            made.push(zeros([1]));
            throw new Error("stop");
          });
        }),
      Error,
      "stop",
    );
    assertEquals(made.map(freed), [false, true, true]);
  });
  assertEquals(freed(made[0]), true);
});

exact("a scope that returns a tensor of an outer scope leaves it with its owner", () => {
  const mine = zeros([1]);
  assertStrictEquals(scope(() => mine), mine);
  assertEquals(freed(mine), false);
  scope(() => {
    const outer = zeros([1]);
    assertStrictEquals(scope(() => scope(() => outer)), outer);
    assertEquals(freed(outer), false);
  });
  mine.free();
});

exact("a tensor that is freed inside its scope is not freed again", () => {
  scope(() => zeros([1]).free());
});

exact("a freed tensor refuses every question, naming it", () => {
  const t = zeros([1]);
  t.free();
  const questions: Record<string, () => unknown> = {
    shape: () => t.shape,
    strides: () => t.strides,
    dtype: () => t.dtype,
    device: () => t.device,
    numel: () => t.numel,
    contiguous: () => t.contiguous,
    item: () => t.item(),
    replaceWith: () => t.replaceWith(t),
  };
  for (const [name, ask] of Object.entries(questions)) {
    assertThrows(ask, UseAfterFree, `internal: ${name} was`);
  }
  assertEquals(t.toString(), "freed tensor");
});

exact("replaceWith moves the other's memory in and counts one tensor fewer", () => {
  scope(() => {
    const t = tensor([1, 2, 3]), other = tensor([4, 5], [2, 1]);
    assertEquals(t.shape, [3]);
    const before = liveTensors();
    t.replaceWith(other);
    assertEquals([liveTensors(), freed(other)], [before - 1, true]);
    assertEquals([t.shape, [...toNumbers(t)]], [[2, 1], [4, 5]]);
  });
});

exact("replaceWith revives a freed tensor, and leaves a tensor that replaces itself as it is", () => {
  const t = zeros([1]);
  t.free();
  const before = liveTensors();
  t.replaceWith(ones([1]));
  assertEquals([liveTensors(), t.item()], [before + 1, 1]);
  t.replaceWith(t);
  assertEquals(t.item(), 1);
  const gone = zeros([1]);
  gone.free();
  assertThrows(() => t.replaceWith(gone), UseAfterFree);
  assertEquals(t.item(), 1);
  t.free();
});

exact("shape, strides, number of elements and of bytes, type, device and contiguity are libtorch's", () => {
  scope(() => {
    const t = uninitialised([2, 3, 4], { dtype: "bf16" });
    assertEquals([t.shape, t.strides, t.numel, t.byteLength], [[2, 3, 4], [12, 4, 1], 24, 48]);
    assertEquals([t.dtype, t.device, t.contiguous, describe(t)], ["bf16", "cpu", true, "bf16[2, 3, 4]"]);
    const turned = transpose(t, 0, 2);
    assertEquals([turned.shape, turned.strides, turned.contiguous], [[4, 3, 2], [1, 4, 12], false]);
    const point = scalar(1);
    assertEquals([point.shape, point.strides, point.numel, String(point)], [[], [], 1, "f32[]"]);
    assertEquals([zeros([0, 3]).numel, zeros([0, 3]).shape], [0, [0, 3]]);
  });
});

exact("item is the value in full precision", () => {
  scope(() => {
    assertEquals(tensor(Float64Array.of(1 / 3)).item(), 1 / 3);
    assertEquals(toCopy(tensor([1 / 3]), "bf16").item(), 0.333984375);
    assertEquals(scalar(1, "bool").item(), 1);
    const big = tensor(BigInt64Array.of(2n ** 53n + 1n));
    assertEquals([big.itemBigInt(), tensor(BigInt64Array.of(-(2n ** 62n))).itemBigInt()], [
      2n ** 53n + 1n,
      -(2n ** 62n),
    ]);
    assertSentence("ffi/tensor: item tensor elements", assertThrows(() => tensor([1, 2]).item(), Error));
  });
});
