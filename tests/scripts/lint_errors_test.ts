// The linter of the error style: what it refuses and what it lets pass.

import { assertEquals, assertMatch } from "@std/assert";
import { lintErrors } from "../../scripts/lint_errors.ts";

const lint = (source: string, file = "core/x.ts") => lintErrors(file, source);

Deno.test("a bare Error is refused in core with its file and line, unless it says that it is internal", () => {
  const [finding, ...more] = lint('\nthrow new Error("boom");\nthrow new Error(`internal: ${x}`);');
  assertEquals([finding.file, finding.line, more.length], ["core/x.ts", 2, 0]);
  assertMatch(finding.sentence, /bare Error.*UserError/);
  assertEquals(lint('throw new RangeError("boom")', "ffi/x.ts"), []);
  assertEquals(lint('// throw new Error("boom")'), []);
});

Deno.test("a user's text must end as a sentence ends", () => {
  assertEquals(lint('new UserError("data", "the file is empty")').length, 1);
  assertEquals(lint('new UserError("data", `${path}: is empty; "x" (${f("a)", `}`)}) is needed`)').length, 1);
  assertEquals(lint('new UserError("data", `no ${path},\\n` +\n  "name another", { cause })').length, 1);
  for (const text of ['"The file is empty."', '"did you mean x?"', "`It is ${name}`", "message", "f(`a`)"]) {
    assertEquals(lint(`new UserError("data", ${text})`), [], text);
  }
});

Deno.test("`invalid` alone is refused, and passes with what was expected", () => {
  assertEquals(lint('new UserError("usage", "Invalid learning rate.")').length, 1);
  assertEquals(lint('new UserError("usage", "Invalid learning rate: expected a number, found x.")'), []);
});
