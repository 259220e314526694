// `hpctrain completions`: bash's are used by a real bash; zsh's and fish's are read.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { command } from "../../commands/completions.ts";
import { COMMANDS, findCommand } from "../../commands/mod.ts";
import { FLAGS } from "../../core/settings/settings.ts";
import { hpctrain } from "./helpers.ts";

/** From a file: all completions are more than an argument may hold. */
async function bash(script: string): Promise<string> {
  const file = await Deno.makeTempFile();
  await Deno.writeTextFile(file, script);
  const { code, stdout, stderr } = await new Deno.Command("bash", { args: [file] }).output();
  await Deno.remove(file);
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

Deno.test("bash completes commands, flags, choices, presets and files", async () => {
  const { out } = await hpctrain(["completions", "bash"]);
  const folder = await Deno.makeTempDir();
  await Deno.writeTextFile(`${folder}/run.yaml`, "");
  const complete = async (...words: string[]) => {
    const list = words.map((word) => `'${word}'`).join(" ");
    const ask = `cd ${folder}; COMP_WORDS=(${list}); COMP_CWORD=${
      words.length - 1
    }; _hpctrain; echo "\${COMPREPLY[*]}"`;
    return (await bash(`${out}\n${ask}`)).trim();
  };
  try {
    const co = ["convert", "config", "completions"].filter((name) => findCommand(name));
    assertEquals(await complete("hpctrain", "co"), co.join(" "));
    assertEquals(await complete("hpctrain", "train", "--amp", ""), "auto bf16 fp16 off fp64");
    assertEquals(await complete("hpctrain", "--amp", "=", "b"), "bf16");
    assertEquals(await complete("hpctrain", "--wandb-o"), "--wandb-offline --wandb-online");
    assertEquals(await complete("hpctrain", "presets", "c"), "cpu cpu-cluster");
    assertEquals(await complete("hpctrain", "--preset", "q"), "quickstart");
    assertEquals(await complete("hpctrain", "config", "--sch"), "--scheduler --schedule-per --schema");
    assertEquals(await complete("hpctrain", "--config", "r"), "run.yaml");
    assertEquals(await complete("hpctrain", "inspect", "r"), "run.yaml");
    assertEquals(await complete("hpctrain", "--set", "training.ep"), "training.epochs=");
    assertEquals(await complete("hpctrain", "--lr", ""), "");
    assertEquals(await complete("hpctrain", "--model", "resnet1"), "resnet18 resnet101");
    assertEquals(await complete("hpctrain", "train", "--model", "ru"), "run.yaml");
    assertEquals(await complete("hpctrain", "--learning"), "--learning-rate");
    assertEquals(await complete("hpctrain", "--precision", "bf16-"), "bf16-mixed");
    assertEquals(await complete("hpctrain", "inspect", "--trace"), "--trace-errors");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("zsh and fish know every command and every flag", async () => {
  const zsh = (await hpctrain(["completions", "zsh"])).out;
  const fish = (await hpctrain(["completions", "fish"])).out;
  for (const { name } of COMMANDS) {
    assert(zsh.includes(`  ${name}) specs=(`) && fish.includes(` -a ${name} `), name);
  }
  for (const name of FLAGS.keys()) {
    assert(zsh.includes(`'*--${name}[`) || zsh.includes(`'*--${name}=[`), name);
    assert(fish.includes(` -l ${name} `), name);
  }
  // Each line of fish stands alone: an odd number of quotes would swallow the next.
  for (const line of fish.split("\n")) {
    assertEquals(line.replaceAll("\\'", "").split("'").length % 2, 1, line);
  }
});

Deno.test("zsh's script has balanced quotes and brackets, as far as bash can tell", async () => {
  const { out } = await hpctrain(["completions", "zsh"]);
  await bash(`bash -n <<'END_OF_SCRIPT'\n${out}\nEND_OF_SCRIPT`);
});

Deno.test("an unknown shell is refused", async () => {
  const { code, err } = await hpctrain(["completions", "zhs"]);
  assertEquals(code, 2);
  assertStringIncludes(err, 'No completions for "zhs". Did you mean "zsh"?');
  assertStringIncludes((await hpctrain(["completions"])).err, "Usage: hpctrain completions bash|zsh|fish");
  assertStringIncludes(command.usage, "bash|zsh|fish");
});
