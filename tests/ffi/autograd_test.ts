import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { backward, boundary, gradOf, noGrad, requireGrad, setGradSlot } from "../../ffi/autograd.ts";
import { NativeError, UseAfterFree } from "../../ffi/errors.ts";
import { readBytes, tensor, toNumbers, zeros } from "../../ffi/make.ts";
import {
  backwardOp,
  exp,
  gelu,
  layerNorm,
  linear,
  mseLoss,
  mul,
  narrow,
  randn,
  sum,
  view,
} from "../../ffi/ops.ts";
import { manualSeed } from "../../ffi/context.ts";
import { liveTensors, scope, type Tensor } from "../../ffi/tensor.ts";
import { python } from "../core/checkpoint/python.ts";
import { useLibtorch } from "../libtorch.ts";
import { assertSentence } from "../sentences.ts";

const lib = useLibtorch();
const test = (name: string, body: () => void) => Deno.test(name, () => scope(body));
const list = (t: Tensor) => [...toNumbers(t)];
const leaf = (values: number[]) => requireGrad(tensor(values));

const peer = `
import json, os, torch
import torch.nn.functional as F
torch.manual_seed(3)
x, y = torch.randn(5, 4), torch.randn(5, 2)
leaves = [torch.randn(s).requires_grad_() for s in [(8, 4), (8,), (8,), (8,), (2, 8)]]
w1, b1, g, b, w2 = leaves
loss = F.mse_loss(F.linear(F.gelu(F.layer_norm(F.linear(x, w1, b1), [8], g, b)), w2), y)
loss.backward()
print(json.dumps([torch.__version__.split("+")[0], os.uname().machine] + [t.detach().double().flatten().tolist()
      for t in [loss] + [l.grad for l in leaves]]))
`;

test("the gradients of a small net are Python PyTorch's, to the bit when it is the same libtorch on the same architecture", () => {
  const [version, machine, ...expected] = JSON.parse(python(peer)) as [string, string, ...number[][]];
  manualSeed(3n);
  const x = randn([5, 4]), y = randn([5, 2]);
  const leaves = [[8, 4], [8], [8], [8], [2, 8]].map((shape) => requireGrad(randn(shape)));
  const [w1, b1, g, b, w2] = leaves;
  const loss = mseLoss(linear(gelu(layerNorm(linear(x, w1, b1), [8], g, b)), w2), y);
  backward(loss);
  const found = [loss, ...leaves.map((l) => gradOf(l)!)].map(list);
  if (version === lib.version.join(".") && machine === Deno.build.arch) return assertEquals(found, expected);
  const distance = Math.max(
    ...found.flatMap((values, i) => values.map((v, j) => Math.abs(v - expected[i][j]))),
  );
  assert(distance < 1e-5, `${distance} apart`);
});

test("a leaf has no gradient before backward, and the right one after it", () => {
  const x = leaf([1, 2]);
  assertEquals(gradOf(x), null);
  backward(sum(mul(x, x)));
  assertEquals(list(gradOf(x)!), [2, 4]);
});

test("backward begins with the gradient that it is given", () => {
  const x = leaf([1, 2]);
  backward(mul(x, x), tensor([1, 10]));
  assertEquals(list(gradOf(x)!), [2, 40]);
});

test("backward adds up into the arena that the slots are views of", () => {
  const arena = zeros([5]);
  const a = leaf([1, 2]), b = requireGrad(tensor([1, 2, 3], [3, 1]));
  setGradSlot(a, narrow(arena, 0, 0, 2));
  setGradSlot(b, view(narrow(arena, 0, 2, 3), [3, 1]));
  for (const expected of [[2, 4, 2, 4, 6], [4, 8, 4, 8, 12]]) {
    scope(() => {
      backward(sum(mul(a, a)));
      backward(sum(mul(b, b)));
    });
    assertEquals(list(arena), expected);
  }
  assertEquals(list(gradOf(b)!), [4, 8, 12]);
});

test("a slot keeps its memory when the tensor that named it is freed", () => {
  const x = leaf([1, 2]);
  const view = zeros([2]);
  setGradSlot(x, view);
  view.free();
  backward(sum(mul(x, x)));
  assertEquals(list(gradOf(x)!), [2, 4]);
});

test("reading a gradient makes one tensor and leaves the gradient's owner alone", () => {
  const x = leaf([1]);
  backward(sum(x));
  const before = liveTensors();
  const first = gradOf(x)!;
  assertEquals(liveTensors(), before + 1);
  first.free();
  assertEquals(list(gradOf(x)!), [1]);
});

test("a boundary cuts the graph, shares the memory and has its own gradient", () => {
  const x = leaf([1, 2]);
  const before = mul(x, x);
  const cut = boundary(before);
  backward(sum(exp(cut)));
  assertEquals(gradOf(x), null);
  const grown = list(noGrad(() => exp(before))); // not Math.exp's last bit on every architecture
  assertAlmostEquals(grown[1], Math.exp(4), 1e-5);
  assertEquals(list(gradOf(cut)!), grown);
  backward(before, gradOf(cut)!);
  assertEquals(list(gradOf(x)!), [2 * grown[0], 4 * grown[1]]);
  assertEquals(readBytes(cut), readBytes(before));
});

test("inside noGrad nothing is recorded, and after it, or after an exception in it, recording goes on", () => {
  const x = leaf([1]);
  const unrecorded = noGrad(() => noGrad(() => mul(x, x)));
  assertThrows(() => backward(unrecorded), NativeError, "does not require grad");
  assertThrows(
    () =>
      noGrad(() => {
        throw new Error("stop");
      }),
    Error,
    "stop",
  ); // deno-fmt-ignore
  backward(mul(x, x));
  assertEquals(list(gradOf(x)!), [2]);
});

test("backward through a graph a second time is an error with libtorch's reason", () => {
  const x = leaf([1]);
  const y = sum(exp(x));
  backward(y);
  const error = assertSentence(
    "ffi/autograd: trying backward through",
    assertThrows(() => backward(y), NativeError),
  );
  assertEquals([error.op, error.message.includes("\n")], ["_backward", false]);
});

test("a kept graph goes backward twice", () => {
  const x = leaf([1]);
  const y = sum(mul(x, x));
  backwardOp(y, [], null, true);
  backwardOp(y, []);
  assertEquals(list(gradOf(x)!), [4]);
});

test("only what has fractions can ask for a gradient", () => {
  assertThrows(() => requireGrad(tensor(Int32Array.of(1))), NativeError, "requireGrad(i32[1]): ");
});

test("an optional gradient argument that was freed is refused", () => {
  const x = leaf([1]), gone = zeros([1]);
  gone.free();
  assertThrows(() => backward(mul(x, x), gone), UseAfterFree, "_backward");
  assertThrows(() => setGradSlot(x, gone), UseAfterFree, "setGradSlot");
  assertThrows(() => gradOf(gone), UseAfterFree, "gradient");
});
