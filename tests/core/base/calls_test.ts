import { assertEquals, assertThrows } from "@std/assert";
import { type Call, isCall, parseCall, parseCalls, type Value } from "../../../core/base/calls.ts";
import { UserError } from "../../../core/base/errors.ts";

/** As plain data, for comparison. */
const plain = (value: Value): unknown =>
  Array.isArray(value)
    ? value.map(plain)
    : typeof value === "object" && value !== null && isCall(value as Call)
    ? [
      (value as Call).name,
      (value as Call).values.map(plain),
      ...[...(value as Call).named].map(([k, v]) => [k, plain(v)]),
    ]
    : value;

Deno.test("names with arguments, pairs, words and calls in calls are read as Python has them", () => {
  const text =
    "random_resized_crop(224, scale=(0.08, 1)), horizontal_flip, random_apply([jitter(.4)], p=8e-1,), " +
    "pad(4, fill='a b', mode=reflect, x=None, y=True, z=-1)";
  assertEquals(parseCalls(text, "--augment").map(plain), [
    ["random_resized_crop", [224], ["scale", [0.08, 1]]],
    ["horizontal_flip", []],
    ["random_apply", [[["jitter", [0.4]]]], ["p", 0.8]],
    ["pad", [4], ["fill", "a b"], ["mode", "reflect"], ["x", null], ["y", true], ["z", -1]],
  ]);
  assertEquals(parseCalls(text, "--augment")[0].text, "random_resized_crop(224, scale=(0.08, 1))");
  assertEquals(parseCalls("", "--augment"), []);
  assertEquals(parseCall("step(30ep, 1e-1, [2e6samples, 20%])", "--scheduler").values, [
    "30ep",
    0.1,
    ["2e6samples", "20%"],
  ]);
});

Deno.test("what can't be read is named with its place", () => {
  for (
    const [text, wanted, place] of [
      ["crop(", "a name or a number", "crop("],
      ["crop(1", '","', "crop(1"],
      ["crop(1 2)", '","', "crop(1"],
      ["a b", '","', "a"],
      ["crop(a=1, 2)", "NAME=VALUE behind another of that kind", "crop(a=1, 2"],
      ["crop(a=1, a=2)", "a once, not twice", "crop(a=1, a="],
      ["7", "a name", "7"],
      ["crop(12px)", "a name or a number", "crop("],
    ]
  ) {
    const error = assertThrows(() => parseCalls(text, "--augment"), UserError);
    assertEquals(error.message, `--augment "${text}": ${wanted} is missing behind "${place}".`);
  }
  assertThrows(() => parseCall("cosine, linear", "--scheduler"), UserError, "the end is missing");
  assertThrows(() => parseCall("", "--scheduler"), UserError, "at its beginning");
});
