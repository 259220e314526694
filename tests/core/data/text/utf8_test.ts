import { assert, assertEquals } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { Utf8 } from "../../../../core/data/text/utf8.ts";

/** The text of blocks of these lengths, or the place where they are refused. */
function through(bytes: Uint8Array, length: () => number): string | number {
  const utf8 = new Utf8("a.txt");
  let text = "";
  try {
    for (let at = 0; at < bytes.length;) {
      const end = at + length();
      text += utf8.decode(bytes.subarray(at, end));
      at = end;
    }
    utf8.end();
  } catch (error) {
    assert(error instanceof UserError && error.message.startsWith("a.txt is not UTF-8"), `${error}`);
    return Number(/byte (\d+)/.exec(error.message)![1]);
  }
  return text;
}

/** The end of the longest beginning that is complete UTF-8. */
function firstWrong(bytes: Uint8Array): number {
  let most = 0;
  for (let end = 1; end <= bytes.length; end++) {
    try {
      new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, end));
      most = end;
    } catch {
      // It ends within a character, or behind a wrong one.
    }
  }
  return most;
}

Deno.test("text in blocks of any length is the text, and what is wrong in it is found to the byte", () => {
  let state = 1;
  const random = (below: number) => (state = (state * 48271) % 2147483647) % below;
  const characters = ["a", "é", "漢", "🙂", "\n"];
  let refused = 0;
  for (let run = 0; run < 2000; run++) {
    const text = Array.from({ length: 12 }, () => characters[random(5)]).join("");
    const bytes = new TextEncoder().encode(text);
    if (run % 4 !== 0) bytes[random(bytes.length)] = random(256);
    const cut = run % 8 === 5 ? bytes.subarray(0, bytes.length - random(4)) : bytes;
    const found = through(cut, () => 1 + random(9)), wrong = firstWrong(cut);
    if (wrong === cut.length) assertEquals(found, new TextDecoder().decode(cut));
    else {
      assertEquals(found, wrong);
      refused++;
    }
  }
  assert(refused > 500 && refused < 1500, `${refused}`);
});
