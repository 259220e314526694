// Files that are made from records: YAML that is laid out as W&B's own program lays it out.
import { assertEquals } from "@std/assert";
import { parse } from "npm:yaml@2.9.1";
import { parseJson } from "../../../../../core/outputs/wandb/sync/json_text.ts";
import { yamlOf } from "../../../../../core/outputs/wandb/sync/files.ts";

const yaml = (value: unknown) => yamlOf(parseJson(JSON.stringify(value))!);

Deno.test("objects are sorted, lists are set in, and each level begins at a column that four divides", () => {
  const value = { b: { "12": 1, "3": [1, { x: [2], y: "z" }] }, a: 1.5, c: [], d: [[1, 2], []] };
  assertEquals(
    yaml(value),
    [
      "a: 1.5",
      "b:",
      '    "3":',
      "        - 1",
      "        - x:",
      "            - 2",
      '          "y": z',
      '    "12": 1',
      "c: []",
      "d:",
      "    - - 1",
      "      - 2",
      "    - []",
      "",
    ].join("\n"),
  );
});

Deno.test("names come in the order of Go's yaml.v3: numbers by their size, marks before letters", () => {
  const names = [
    "3",
    "12",
    "d",
    "d_coef",
    "d0",
    "d1x",
    "d1_x",
    "d2",
    "d10",
    "d100",
    "d_",
    "dA",
    "da",
    "x.y",
    "xy",
    "x010",
    "x10",
  ];
  const order = yaml(Object.fromEntries(names.map((name) => [name, 0]))).trimEnd().split("\n");
  assertEquals(order.map((line) => line.replace(/"|: 0$/g, "")), [
    ...["3", "12", "d", "d_", "d_coef", "d0", "d1x", "d1_x", "d2", "d10", "d100", "dA", "da"],
    ...["x.y", "x10", "x010", "xy"],
  ]);
});

Deno.test("any text and any name reads back as it was", () => {
  const texts = [
    ...[
      "",
      " ",
      "a b",
      "12",
      "1e5",
      "true",
      "no",
      "null",
      "~",
      "2026-11-22",
      "1:30",
      "- a",
      "a: b",
      "a #b",
      "'q'",
      '"q"',
    ],
    ...[
      "@x",
      "%x",
      "&x",
      "*x",
      "!x",
      "|",
      ">",
      "é🙂",
      "a\nb",
      "a\nb\n",
      "a\n\nb\n\n",
      " a\nb",
      "a\n b",
      "tab\tx",
      "a\\b",
    ],
    ...[
      "\u0001",
      "a\r\nb",
      "x".repeat(200),
      "word ".repeat(40),
      "{a}",
      "[a]",
      "a,b",
      "?",
      "key: |\n  x",
      "---",
      "...",
    ],
  ];
  for (const text of texts) {
    assertEquals(parse(yaml({ text, [text]: 1 })), { text, [text]: 1 }, JSON.stringify(text));
    assertEquals(parse(yaml({ deep: { er: [text, { text }] } })), { deep: { er: [text, { text }] } });
  }
});

Deno.test("numbers that JSON has not are YAML's", () => {
  assertEquals(
    yamlOf(parseJson('{"a":NaN,"b":-Infinity,"c":[Infinity]}')!),
    "a: .nan\nb: -.inf\nc:\n    - .inf\n",
  );
});
