// The templates, and the declarations that they import.
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../../core/base/errors.ts";
import {
  template,
  TEMPLATE_KINDS,
  type TemplateKind,
  typeDeclarations,
  writeTemplate,
} from "../../../../core/models/user/templates.ts";
import { inTemp, ROOT } from "../../../integration/program.ts";

const deno = async (args: readonly string[], cwd: string) => {
  const done = await new Deno.Command(Deno.execPath(), { args: [...args], cwd, env: { NO_COLOR: "1" } })
    .output();
  return { success: done.success, said: new TextDecoder().decode(done.stderr) };
};

Deno.test("the declarations are those that the library's sources give", () =>
  inTemp(async (folder) => {
    const made = join(folder, "made.d.ts");
    const program = join(ROOT, "scripts/user_types.ts");
    const { success, said } = await deno(
      ["run", "--quiet", "--allow-all", "--no-check", "--no-lock", program, made],
      ROOT,
    );
    assert(success, said);
    assertEquals(
      typeDeclarations(),
      Deno.readTextFileSync(made),
      "make them anew: deno run --allow-all --no-lock scripts/user_types.ts",
    );
  }));

Deno.test("the declarations stand for themselves, and tell a mistake in a model by its line", () =>
  inTemp(async (folder) => {
    Deno.writeTextFileSync(join(folder, "hpctrain.d.ts"), typeDeclarations());
    for (const kind of Object.keys(TEMPLATE_KINDS) as TemplateKind[]) {
      writeTemplate(kind, join(folder, `${kind}.ts`));
    }
    const files = Object.keys(TEMPLATE_KINDS).map((kind) => `${kind}.ts`);
    const whole = await deno(["check", "--quiet", "--no-lock", "--no-remote", "--no-npm", ...files], folder);
    assert(whole.success, whole.said);
    assert(!/\bfrom "|import\(/.test(typeDeclarations()));
    const broken = template("model", "model.ts").replace("ops.relu(", "ops.reloo(");
    Deno.writeTextFileSync(join(folder, "model.ts"), broken);
    const { success, said } = await deno(["check", "--quiet", "--no-lock", "model.ts"], folder);
    assert(!success);
    assertStringIncludes(said, "'reloo' does not exist");
    const line = broken.split("\n").findIndex((text) => text.includes("reloo")) + 1;
    assertMatch(said, new RegExp(`model\\.ts:${line}:`));
  }));

Deno.test("a template names the file that it is written to, and a file that is there is left alone", () =>
  inTemp((folder) => {
    const file = join(folder, "mine.ts");
    writeTemplate("loss", file);
    const text = Deno.readTextFileSync(file);
    assertStringIncludes(text, `Train with it: hpctrain --loss ${file}\n`);
    const { message } = assertThrows(() => writeTemplate("model", file), UserError);
    assertStringIncludes(message, "mine.ts is there already, and is left as it is.");
    assertEquals(Deno.readTextFileSync(file), text);
    assertThrows(
      () => writeTemplate("model", join(folder, "none/mine.ts")),
      UserError,
      "can't be written: No such file",
    );
  }));
