// Lines that schedulers read: what can't stand in one is quoted, or refused.
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { pbsLine, pbsOption, sbatchLine, sbatchOption } from "../../../../core/cluster/script/body.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { HOSTILE } from "./hostile.ts";

/** As sbatch reads the value of an option: up to a blank or # outside quotes, a backslash before any letter. */
function asSbatchReads(line: string): string {
  let text = "", quote = "";
  for (let i = line.indexOf("=") + 1; i < line.length; i++) {
    const letter = line[i];
    if (letter === "\\") text += line[++i];
    else if (quote !== "") letter === quote ? quote = "" : text += letter;
    else if (letter === '"' || letter === "'") quote = letter;
    else if (/[\s#]/.test(letter)) break;
    else text += letter;
  }
  return text;
}

Deno.test("sbatch reads every value as it was, or it is refused because no line can hold it", () => {
  let refused = 0;
  for (const value of HOSTILE) {
    // deno-lint-ignore no-control-regex
    if (/[\u0000-\u001f\u007f]/.test(value)) {
      assertThrows(() => sbatchLine("comment", value), UserError, "can't hold a line break");
      refused++;
    } else assertEquals(asSbatchReads(sbatchLine("comment", value)), value);
  }
  assertEquals(refused > 10 && refused < 80, true, String(refused));
});

Deno.test("options of the site's own pass untouched", () => {
  assertEquals(sbatchOption("--nice=100"), "#SBATCH --nice=100");
  assertEquals(sbatchOption("-p short"), "#SBATCH -p short");
  assertEquals(sbatchOption("--contiguous"), "#SBATCH --contiguous");
  assertEquals(pbsOption("-l software=x"), "#PBS -l software=x");
  assertThrows(() => sbatchOption("nice=100"), UserError, "with its dashes: --sbatch-arg=--nice=100");
  assertThrows(() => pbsOption("-l a\n#PBS -q b"), UserError, "line break");
});

Deno.test("PBS can quote nothing, so what it would cut in two is refused", () => {
  assertEquals(pbsLine("-q", "workq@server"), "#PBS -q workq@server");
  for (const value of ["two words", 'say "hi"', "a#b", "$(x)"]) {
    const error = assertThrows(() => pbsLine("-q", value), UserError);
    assertMatch(error.message, /can't stand in a #PBS line/);
  }
});
