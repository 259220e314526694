// What a module promises to a trainer: names, shared tensors, lives.
import { assert, assertEquals } from "@std/assert";
import { inPass } from "../../../core/models/nn/forward_context.ts";
import { Group } from "../../../core/models/nn/module.ts";
import { BatchNorm } from "../../../core/models/nn/norms.ts";
import { Embedding, Linear } from "../../../core/models/nn/linear.ts";
import { constant, readBytes, zeros } from "../../../ffi/make.ts";
import { randn } from "../../../ffi/ops.ts";
import { liveTensors, scope } from "../../../ffi/tensor.ts";
import { open } from "./native.ts";

open();

Deno.test("a tied weight is one parameter and two entries of the state dict", () => {
  const before = liveTensors();
  const embedding = new Embedding(4, 3), head = new Linear(3, 4, { bias: false });
  head.tie(embedding.weight);
  const root = new Group({ embedding, head });
  assertEquals(root.namedParameters().map(([name]) => name), ["embedding.weight"]);
  assertEquals(root.stateDict().map(([name]) => name), ["embedding.weight", "head.weight"]);
  assert(root.stateDict()[1][1] === embedding.weight);
  root.free();
  assertEquals(liveTensors(), before);
});

Deno.test("a parameter that gets another native tensor is still the module's", () => {
  scope(() => {
    const linear = new Linear(3, 2, { bias: false });
    linear.weight.replaceWith(zeros([2, 3]));
    assertEquals([...new Float32Array(readBytes(linear.forward(randn([1, 3]))).buffer)], [0, 0]);
    linear.free();
  });
});

Deno.test("forward in a scope leaves no tensor behind, batch counts included", () => {
  const norm = new BatchNorm(3);
  const x = randn([4, 3]);
  constant(0, "i64"), constant(1, "i64");
  const before = liveTensors();
  for (let i = 0; i < 3; i++) scope(() => void norm.forward(x));
  assertEquals(liveTensors(), before);
  const batches = norm.stateDict().find(([name]) => name === "num_batches_tracked")![1];
  assertEquals(batches.itemBigInt(), 3n);
  norm.free(), x.free();
});

Deno.test("a recomputed forward gives the same bits and leaves running statistics alone", () => {
  scope(() => {
    const norm = new BatchNorm(3);
    const x = randn([4, 3]);
    const first = readBytes(norm.forward(x));
    const statistics = norm.namedBuffers().map(([, t]) => readBytes(t));
    assertEquals(inPass(norm, "second", () => readBytes(norm.forward(x))), first);
    assertEquals(norm.namedBuffers().map(([, t]) => readBytes(t)), statistics);
    norm.forward(x);
    assert(norm.namedBuffers().some(([, t], i) => String(readBytes(t)) !== String(statistics[i])));
    norm.free();
  });
});
