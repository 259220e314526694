// Pictures in a terminal: two pixels a character, in colours where it has them.
import { assert, assertEquals } from "@std/assert";
import { drawPicture, inkOf } from "../../../../commands/run/inspect_data.ts";

const picture = (width: number, height: number, grey: (x: number, y: number) => number) => ({
  width,
  height,
  rgb: Uint8Array.from(
    { length: 3 * width * height },
    (_, i) => grey(Math.floor(i / 3) % width, Math.floor(i / 3 / width)),
  ),
});

Deno.test("in a file or a pipe it is shades, without an escape code", () => {
  const lines = drawPicture(picture(5, 4, (x, y) => y < 2 ? 60 * x : 0), "shades");
  assertEquals(lines, [" ░▒▓█", ""]);
  assertEquals(
    drawPicture(picture(1, 3, (_, y) => y < 2 ? 0 : 255), "shades"),
    ["", "█"],
    "an odd last row counts alone",
  );
});

Deno.test("colours are of the upper and of the lower pixel, and said once where they stay", () => {
  const rgb = Uint8Array.of(1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6);
  assertEquals(drawPicture({ width: 2, height: 2, rgb }, "full"), ["\x1b[38;2;1;2;3;48;2;4;5;6m▀▀\x1b[0m"]);
});

Deno.test("256 colours: greys are of the grey ramp, others of the cube, and no number is beyond 255", () => {
  for (let grey = 0; grey < 256; grey++) {
    const [line] = drawPicture(picture(1, 1, () => grey), "256");
    const code = Number(/38;5;(\d+)/.exec(line)![1]);
    assert(code === 16 || code === 231 || (code >= 232 && code <= 255), `${grey} is ${code}`);
  }
  const [red] = drawPicture({ width: 1, height: 1, rgb: Uint8Array.of(255, 0, 0) }, "256");
  assertEquals(red, "\x1b[38;5;196;49m▀\x1b[0m");
});

Deno.test("a terminal says what it can; NO_COLOR and dumb terminals get shades", () => {
  const ink = (isTerminal: boolean, env: Record<string, string>) => inkOf(isTerminal, (name) => env[name]);
  assertEquals(ink(true, { COLORTERM: "truecolor" }), "full");
  assertEquals(ink(true, { TERM: "xterm" }), "256");
  assertEquals(ink(false, { COLORTERM: "truecolor" }), "shades");
  assertEquals(ink(true, { COLORTERM: "truecolor", NO_COLOR: "1" }), "shades");
  assertEquals(ink(true, { TERM: "dumb" }), "shades");
});
