// Output as a terminal would show it.
import { assertEquals } from "@std/assert";
import { openConsoleText } from "../../../../../core/outputs/wandb/sync/contents.ts";

function shown(pieces: readonly string[]): string[] {
  const console = openConsoleText();
  for (const [i, piece] of pieces.entries()) console.write("stdout", i, piece);
  console.end();
  return console.take().map(({ text }) => text);
}

Deno.test("pieces become lines, and a last one needs no end", () => {
  assertEquals(shown(["one", " ", "line", "\n", "two\nthree\n\nfour"]), [
    "one line",
    "two",
    "three",
    "",
    "four",
  ]);
});

Deno.test("a carriage return writes over what is there, and colours stay", () => {
  assertEquals(shown(["10%\r20%\rdone\n"]), ["done"]);
  assertEquals(shown(["abcdef\rxy\n", "a\r\nb\r\n"]), ["xycdef", "a", "b"]);
  assertEquals(shown(["long line\r\x1b[Kno\n"]), ["no"]);
  assertEquals(shown(["\x1b[31mred\x1b[0m plain\n"]), ["\x1b[31mred\x1b[0m plain"]);
});

Deno.test("lines of two streams keep the order of their begins, and an open one holds back those after it", () => {
  const console = openConsoleText();
  console.write("stdout", 1, "begun");
  console.write("stderr", 2, "whole\n");
  assertEquals(console.take(), []);
  console.write("stdout", 3, " and ended\n");
  assertEquals(console.take().map(({ stream, t, text }) => [stream, t, text]), [
    ["stdout", 1, "begun and ended"],
    ["stderr", 2, "whole"],
  ]);
  assertEquals(console.take(), []);
});
