// Finding the weights in other people's checkpoints, and saying all at once what does not fit.
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import {
  compareStateDicts,
  findStateDict,
  type TensorShape,
  withoutWrappers,
} from "../../../core/checkpoint/state_dict.ts";
import { dict, memoryStorage, OrderedDict, TensorData, type Value } from "../../../core/checkpoint/value.ts";
import { UserError } from "../../../core/base/errors.ts";
import { assertSentence, sentenceNamed } from "../../sentences.ts";

const tensor = (shape: number[]) => new TensorData("f32", shape, memoryStorage(new Uint8Array(4096)));
const shapes = (entries: Record<string, number[]>): TensorShape[] =>
  Object.entries(entries).map(([name, shape]) => ({ name, shape }));
const tensors = (entries: Record<string, number[]>) =>
  new Map(Object.entries(entries).map(([name, shape]) => [name, tensor(shape)]));

Deno.test("weights are found in our checkpoints, Lightning's, a {model: ...} and a bare state dict", () => {
  const weights = new OrderedDict([["fc.weight", tensor([2])], ["fc._extra_state", null]]);
  const roots: [string, Value][] = [
    [
      "model_state_dict",
      dict({ epoch: 1, optimizer_state_dict: dict({ state: dict({}) }), model_state_dict: weights }),
    ],
    ["state_dict", dict({ "pytorch-lightning_version": "2", state_dict: weights })],
    ["model", dict({ model: weights })],
    ["", weights],
  ];
  for (const [key, root] of roots) {
    const found = findStateDict(root, "a.pt");
    assertEquals([found.key, [...found.tensors.keys()], found.others], [key, ["fc.weight"], [
      "fc._extra_state",
    ]]);
  }
});

Deno.test("a checkpoint without weights is refused with what it holds", () => {
  const error = assertThrows(
    () => findStateDict(dict({ epoch: 1, loss: 2 }), "a.pt"),
    UserError,
    "found a dict with the keys epoch, loss",
  );
  assertEquals(error.kind, "checkpoint");
  assertThrows(() => findStateDict([1], "a.pt"), UserError, "found no dict");
});

Deno.test("what DistributedDataParallel and torch.compile add to names is taken off, and said", () => {
  const expected = shapes({ "a.weight": [2], "b.0.weight": [3] });
  for (
    const [first, names] of [
      ["module.", ["module.a.weight", "module.b.0.weight"]],
      ["_orig_mod.", ["_orig_mod.a.weight", "_orig_mod.b.0.weight"]],
      ["module.", ["module._orig_mod.a.weight", "module._orig_mod.b.0.weight"]],
      ["module.", ["_orig_mod.module.a.weight", "_orig_mod.module.b.0.weight"]],
      ["_orig_mod.", ["a.weight", "b._orig_mod.0.weight"]],
    ] as [string, string[]][]
  ) {
    const { tensors: renamed, notice } = withoutWrappers(
      expected,
      tensors({ [names[0]]: [2], [names[1]]: [3] }),
    );
    assertEquals([...renamed.keys()], ["a.weight", "b.0.weight"], names[0]);
    assert(notice?.includes("off the names of"), `${first} ${notice}`);
  }
});

Deno.test("names are left alone when the model has them so, or when two would become one", () => {
  const own = withoutWrappers(shapes({ "module.a": [1] }), tensors({ "module.a": [1] }));
  assertEquals([[...own.tensors.keys()], own.notice], [["module.a"], undefined]);
  const both = withoutWrappers(shapes({ a: [1] }), tensors({ a: [1], "module.a": [1] }));
  assertEquals([[...both.tensors.keys()], both.notice], [["a", "module.a"], undefined]);
});

const mismatch = (expected: Record<string, number[]>, found: Record<string, number[]>) =>
  assertThrows(() => compareStateDicts(shapes(expected), tensors(found), "a.pt"), UserError);

Deno.test("every missing, extra and wrongly shaped tensor is listed at once, with both shapes", () => {
  const error = mismatch(
    { "fc.weight": [10, 512], "fc.bias": [10], conv: [3], same: [1] },
    { "fc.weight": [1000, 512], "fc.bias": [1000], head: [4, 4], same: [1] },
  );
  assertEquals(error.kind, "checkpoint");
  assertEquals(error.message.split("\n").slice(0, 5), [
    sentenceNamed("core/checkpoint/state_dict: tensors fit model"),
    sentenceNamed("core/checkpoint/state_dict: shape weight file"),
    sentenceNamed("core/checkpoint/state_dict: shape bias file"),
    "  missing  conv [3]",
    "  extra    head [4, 4]",
  ]);
  compareStateDicts(shapes({ a: [1] }), tensors({ a: [1] }), "a.pt");
});

Deno.test("a long list is cut with a count", () => {
  const error = mismatch(Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`layer${i}`, [i]])), {});
  assertStringIncludes(error.message, "  ... and 60 more\n");
  assert(error.message.split("\n").length < 45);
});

Deno.test("names that fit but for a prefix get the command that takes it off", () => {
  const error = mismatch({ "a.w": [1], "b.w": [1] }, { "model.a.w": [1], "model.b.w": [1], "loss.w": [1] });
  assertSentence("core/checkpoint/state_dict: did you mean", error.message);
});
