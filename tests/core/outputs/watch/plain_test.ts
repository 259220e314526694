import { assert, assertEquals, assertMatch } from "@std/assert";
import { newWarnings, plainLine } from "../../../../core/outputs/watch/screen.ts";
import { viewOf } from "./views.ts";

Deno.test("a line says state, place, losses, speed, time left and the slowest rank", () => {
  assertMatch(
    plainLine(viewOf({ ranks: 4, exit: null })),
    /^made: running \| Step 1000\/1000 \| Epoch 10\/10 \| Loss: \d\.\d{4} \| Val Loss: \d\.\d{4} \| LR: \S+ \| \d+ samples\/s \| 0 s left \| rank 2 of 4 slowest by 31% \| Time: compute 7\d\.\d%, communication 10\.0%, [a-z0-9 .,%]*, rest \d\.\d%$/,
  );
});

Deno.test("on a terminal that can't be drawn on the line loses its last parts, so that it does not wrap", () => {
  const view = viewOf({ ranks: 4, exit: null });
  for (const width of [40, 80, 120]) {
    const line = plainLine(view, width);
    assert(line.length <= width && plainLine(view).startsWith(line), line);
  }
});

Deno.test("each warning is told once, and where many came at once their number", () => {
  const view = viewOf({ warnings: ["a", "b\n\x1b[31mc"] });
  assertEquals(newWarnings(view, 0), ["warning: a", "warning: b  [31mc"]);
  assertEquals(newWarnings(view, 1), ["warning: b  [31mc"]);
  assertEquals(newWarnings(view, 2), []);
  const many = viewOf({ warnings: Array.from({ length: 70 }, (_, i) => `w${i}`) });
  const said = newWarnings(many, 10);
  assertEquals([said.length, said[0], said.at(-1)], [51, "10 more warnings", "warning: w69"]);
});
