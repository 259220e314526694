import { assert, assertEquals } from "@std/assert";
import { openScreen } from "../../../../core/outputs/watch/terminal.ts";

Deno.test("only lines that changed are sent, between marks that show them at once", () => {
  const written: string[] = [];
  const screen = openScreen((text) => written.push(text));
  screen.draw(["one", "two"]);
  assert(written[0].startsWith("\x1b[?2026h\x1b[?1049h") && written[0].endsWith("\x1b[?2026l"));
  screen.draw(["one", "TWO"]);
  assertEquals(written[1], "\x1b[?2026h\x1b[2;1HTWO\x1b[?2026l");
  screen.draw(["one", "TWO"]);
  assertEquals(written.length, 2, "nothing changed, nothing is written");
});

Deno.test("nothing but the first drawing clears, so nothing flickers; after a resize all is drawn again", () => {
  const written: string[] = [];
  const screen = openScreen((text) => written.push(text));
  // deno-lint-ignore no-control-regex
  const clears = () => written.filter((text) => /\x1b\[[0-9]*[JK]/.test(text)).length;
  screen.draw(["a", "b"]);
  for (let i = 0; i < 10; i++) screen.draw([`a${i}`, "b"]);
  assertEquals(clears(), 1);
  screen.stale();
  screen.draw(["a9", "b"]);
  assert(written.at(-1)!.includes("\x1b[2;1Hb"));
});

Deno.test("the terminal is given back as it was, and only if it was taken", () => {
  const written: string[] = [];
  const screen = openScreen((text) => written.push(text));
  screen.close();
  assertEquals(written, []);
  screen.draw(["a"]);
  screen.close();
  screen.close();
  assertEquals(written.slice(1), ["\x1b[?7h\x1b[?25h\x1b[?1049l"]);
});
