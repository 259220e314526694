// JSON as text: spelled as W&B's own program spells it (the expected spellings are Go's).
import { assertEquals } from "@std/assert";
import {
  floatText,
  mergeAt,
  parseJson,
  removeAt,
  setAt,
  textOfJson,
  type Tree,
} from "../../../../../core/outputs/wandb/sync/json_text.ts";
import { measured } from "../../../../cpu_time.ts";

const respelled = (text: string): string | null => {
  const value = parseJson(text);
  return value === null ? null : textOfJson(value);
};

Deno.test("floats are as short as they can be, with an exponent from a million on and below a ten-thousandth", () => {
  const spellings: [number, string][] = [
    [1.5, "1.5"],
    [1e9, "1e+09"],
    [1234567.5, "1.2345675e+06"],
    [100000, "100000"],
    [1e6, "1e+06"],
    [999999, "999999"],
    [0.0001, "0.0001"],
    [0.00001, "1e-05"],
    [-0.00001234, "-1.234e-05"],
    [5e-324, "5e-324"],
    [Number.MAX_VALUE, "1.7976931348623157e+308"],
    [1795307093.1251464, "1.7953070931251464e+09"],
    [-0, "-0"],
    [NaN, "NaN"],
    [-Infinity, "-Infinity"],
  ];
  for (const [value, text] of spellings) assertEquals(floatText(value), text);
});

Deno.test("integers of 64 bits pass unchanged, larger ones are floats, and 2.0 is 2", () => {
  assertEquals(respelled("9223372036854775807"), "9223372036854775807");
  assertEquals(respelled("-9223372036854775808"), "-9223372036854775808");
  assertEquals(respelled("12345678901234567890"), "1.2345678901234567e+19");
  assertEquals(respelled("[2.0,1e3,0.1]"), "[2,1000,0.1]");
});

Deno.test("objects keep their order, spaces go, and NaN is a word", () => {
  assertEquals(
    respelled(' { "b" : [ 1 , NaN , -Infinity ] , "a" : { } } '),
    '{"b":[1,NaN,-Infinity],"a":{}}',
  );
  assertEquals(respelled('"\\u00e9\\n\\u0001\\/"'), '"é\\n\\u0001/"');
  assertEquals(respelled('"\\ud800"'), '"\ufffd"', "half a pair is in no UTF-8");
  assertEquals(textOfJson(parseJson('{"b":1,"a":{"d":1,"c":2}}')!, true), '{"a":{"c":2,"d":1},"b":1}');
});

Deno.test("a text that is no JSON is read as null", () => {
  for (
    const text of [
      "",
      "[1,]",
      "{",
      '{"a"}',
      "01",
      "1 2",
      "nul",
      '"a',
      "'a'",
      '"\n"',
      "[".repeat(600),
      "{a:1}",
    ]
  ) {
    assertEquals(parseJson(text), null, text.slice(0, 20));
  }
});

Deno.test("a long text is read in no time", () => {
  const long = JSON.stringify('\\"x'.repeat(1_000_000));
  const { result, seconds } = measured(() => parseJson(long));
  assertEquals([result === long, seconds < 2], [true, true], `${seconds} s`);
});

Deno.test("values are set, merged and removed by their paths", () => {
  const tree: Tree = new Map();
  setAt(tree, ["a", "b"], "1");
  setAt(tree, ["c"], "2");
  mergeAt(tree, ["a"], parseJson('{"d":{"e":3},"b":4}')!);
  assertEquals(textOfJson(tree), '{"a":{"b":4,"d":{"e":3}},"c":2}');
  setAt(tree, ["c", "f"], "5");
  removeAt(tree, ["a", "d", "e"]);
  removeAt(tree, ["nothing", "there"]);
  assertEquals(textOfJson(tree), '{"a":{"b":4,"d":{}},"c":{"f":5}}');
});
