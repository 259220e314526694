// Which files a checkpoint's word is enough for.
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../../core/base/errors.ts";
import { codeHash, refuseForeign } from "../../../../core/models/user/code.ts";
import { writeEntries } from "../exported/fuzz.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

function program(path: string, graph: string, weights = "w"): void {
  writeEntries(path, new Map([["m/models/model.json", bytes(graph)], ["m/data/weights/0", bytes(weights)]]));
}

Deno.test("a .pt2 that a checkpoint names is taken from the folder one is in, with the graph it was trained with", async () => {
  const folder = Deno.makeTempDirSync(), before = Deno.cwd();
  const [own, other] = ["own", "other"].map((name) => join(folder, name));
  Deno.mkdirSync(own);
  Deno.mkdirSync(other);
  const path = join(own, "net.pt2");
  const refusal = async (saved: string[]) =>
    (await assertRejects(() => refuseForeign(path, "--model", saved), UserError)).message;
  try {
    program(path, "{}");
    const hash = await codeHash(path);
    Deno.chdir(own);
    await refuseForeign(path, "--model", [hash]);
    await refuseForeign("net.pt2", "--model", ["of another file", hash]);
    await refuseForeign(path, "--model", []); // written by a version that noted none
    program(path, "{}", "other weights");
    assertEquals(await codeHash(path), hash);
    program(path, "[]");
    assertStringIncludes(await refusal([hash]), "its hash differs");
    Deno.chdir(other);
    assertStringIncludes(await refusal([await codeHash(path)]), "lies outside the folder you are in");
    Deno.symlinkSync(path, "link.pt2");
    const linked = await assertRejects(() => refuseForeign("link.pt2", "--model", []), UserError);
    assertStringIncludes(linked.message, "lies outside the folder you are in");
    await refuseForeign("nowhere.pt2", "--model", []); // what opens it says that it is not there
  } finally {
    Deno.chdir(before);
    Deno.removeSync(folder, { recursive: true });
  }
});
