// scripts/deletable: three parts of the program, which the commit's hash chooses, are taken away.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl } from "paths";
import { partsOf } from "../../scripts/lib/deletable_parts.ts";
import { PARTS } from "../../core/parts.ts";
import { COMMANDS } from "../../commands/mod.ts";

const ROOT = fromFileUrl(new URL("../../", import.meta.url));

async function deletable(...args: string[]): Promise<{ code: number; said: string }> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--allow-all", "--no-check", "--quiet", "scripts/lib/deletable.ts", ...args],
    cwd: ROOT,
    stdin: "null",
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, said: text(stdout) + text(stderr) };
}

Deno.test("three parts by the commit's hash are taken away: types are good, and the tests whose imports changed pass", async () => {
  const { code, said } = await deletable("--three");
  assertEquals(code, 0, said);
  assertMatch(said, /^3 of 3 parts can be taken away$/m);
});

Deno.test("a name that is no part is refused with those there are", async () => {
  const { code, said } = await deletable("mlflwo");
  assertEquals(code, 2);
  assertMatch(said, /There is no part "mlflwo"\. They are .*mlflow/);
});

Deno.test("each line of the list and each command is a part, but those that the program is not one without", async () => {
  const here = Deno.cwd();
  Deno.chdir(ROOT);
  try {
    const files: string[] = [];
    for await (
      const path of new Deno.Command("git", { args: ["ls-files"], stdout: "piped" }).spawn().stdout
    ) {
      files.push(new TextDecoder().decode(path));
    }
    const names = partsOf(files.join("").trim().split("\n")).map(({ name }) => name);
    const expected = [
      ...Object.values(PARTS).flatMap((seam) => Object.keys(seam)),
      ...COMMANDS.map(({ name }) => name),
    ].filter((name) => !["train", "config", "presets", "mlp", "convnets", "synthetic"].includes(name));
    for (const name of expected) assert(names.some((one) => one.split("/").at(-1) === name), name);
    assert(["core/export", "core/compile", "nccl", "mpi"].every((name) => names.includes(name)));
  } finally {
    Deno.chdir(here);
  }
});
