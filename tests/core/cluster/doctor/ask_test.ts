import { entriesIn } from "../../../../core/base/files.ts";
import { assertEquals } from "@std/assert";
import { join } from "paths";
import { onPath, programOutput, textIn } from "../../../../core/cluster/doctor/check.ts";
import { inTemp } from "../../../integration/program.ts";

Deno.test("a program is found in the first folder of PATH that has it, if it may be executed", () =>
  inTemp((folder) => {
    for (const [name, mode] of [["a", 0o644], ["b", 0o755], ["c", 0o755]] as const) {
      Deno.mkdirSync(join(folder, name));
      Deno.writeTextFileSync(join(folder, name, "tool"), "#!/bin/sh\n", { mode });
    }
    const PATH = ["a", "b", "c"].map((name) => join(folder, name)).join(":");
    assertEquals(onPath("tool", { PATH }), join(folder, "b/tool"));
    assertEquals([onPath("other", { PATH }), onPath("tool", {})], [null, null]);
  }));

Deno.test("what a program prints is heard; one that fails, hangs or is not there has said nothing", async () => {
  const sh = (script: string, patience?: number) => programOutput("/bin/sh", ["-c", script], patience);
  assertEquals(await sh("echo 1; echo 2 >&2"), "1\n2");
  assertEquals(
    await Promise.all([sh("echo 1; exit 3"), sh("exec sleep 60", 100), programOutput("/no/such", [])]),
    [
      null,
      null,
      null,
    ],
  );
});

Deno.test("files and folders that are not there are empty", () => {
  assertEquals([textIn("/no/such"), entriesIn("/no/such")], ["", []]);
});
