// The counts come from what a real `deno test` writes.

import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { parseJunit } from "../../scripts/lib/junit.ts";
import { inTemp } from "../ffi/libraries/fake_libtorch.ts";

Deno.test("passed, failed and skipped tests are read back with their names", () =>
  inTemp(async (folder) => {
    const file = join(folder, "sample_test.ts"), xml = join(folder, "out.xml");
    await Deno.writeTextFile(
      file,
      `Deno.test('says "yes" & <no>', () => {});
       Deno.test("breaks", () => { throw new Error("testcase/> </testcase>"); });
       Deno.test({ name: "waits", ignore: true }, () => {});`,
    );
    const args = ["test", "--no-check", "--no-config", `--junit-path=${xml}`, file];
    await new Deno.Command(Deno.execPath(), { args }).output();
    const found = parseJunit(await Deno.readTextFile(xml));
    assertEquals(found.map((r) => [r.name, r.outcome]), [
      ['says "yes" & <no>', "passed"],
      ["breaks", "failed"],
      ["waits", "skipped"],
    ]);
    assertMatch(found[1].why!, /^Error: testcase\/> <\/testcase>$/m);
    assertEquals(found[0].why, "");
    assertEquals(found.every((r) => r.seconds >= 0 && r.file.endsWith("sample_test.ts")), true);
  }));
