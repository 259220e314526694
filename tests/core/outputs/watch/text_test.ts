import { assertEquals } from "@std/assert";
import {
  clipText,
  fitted,
  harmless,
  padded,
  painted,
  spreadText,
  terminalWidthOf,
} from "../../../../core/base/terminal_text.ts";
import { ASCII, COLOURED, PLAIN } from "./views.ts";

Deno.test("columns are counted as terminals do: wide letters two, marks and colours none", () => {
  for (
    const [text, columns] of [["", 0], ["loss", 4], ["größe", 5], ["学習", 4], ["e\u0301", 1], ["🚀", 2], [
      "\x1b[36mab\x1b[0m",
      2,
    ], ["⠉█▒", 3]] as const
  ) {
    assertEquals(terminalWidthOf(text), columns, text);
  }
});

Deno.test("a text is cut to its columns, with a mark, and its colour ends there", () => {
  assertEquals(clipText("validation", 6, PLAIN), "valid…");
  assertEquals(clipText("validation", 6, ASCII), "valid~");
  assertEquals(clipText("validation", 10, PLAIN), "validation");
  assertEquals(clipText("学習率", 4, PLAIN), "学…");
  assertEquals(clipText(painted("validation", "red", COLOURED), 4, COLOURED), "\x1b[31mval\x1b[0m…");
  assertEquals(clipText("x", 0, PLAIN), "");
  assertEquals(padded("学習率", 4, PLAIN), "学… ");
});

Deno.test("without colours nothing is painted", () => {
  assertEquals([painted("a", "red", PLAIN), painted("", "red", COLOURED), painted("a", null, COLOURED)], [
    "a",
    "",
    "a",
  ]);
});

Deno.test("what moves a cursor or hides letters is taken out of words", () => {
  assertEquals(harmless("a\x1b[2Jb\r\nc\u0007\u202ed\u0085\u2028"), "a [2Jb  c  d  ");
  assertEquals(harmless("größe 学習 🚀"), "größe 学習 🚀");
});

Deno.test("the right part goes where there is no room for both, parts are dropped whole", () => {
  assertEquals(spreadText("name", "done", 14, PLAIN), "name      done");
  assertEquals(spreadText("a long name of a run", "done", 14, PLAIN), "a long name o…");
  assertEquals(fitted(["one", "", "two", "three"], " | ", 9), "one | two");
  assertEquals(fitted(["one"], " | ", 2), "");
});
