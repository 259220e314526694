// Help, the guide, and what the executable says to a wrong word.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { commandHelp, GROUPS, guide } from "../../commands/help.ts";
import { COMMANDS, findCommand } from "../../commands/mod.ts";
import { ALL_SETTINGS, FLAGS } from "../../core/settings/settings.ts";
import { VERSION } from "../../core/base/version.ts";
import { hpctrain, inProcess } from "./helpers.ts";
import { assertSentence } from "../sentences.ts";

Deno.test("no arguments, --help and help print the same guide of one screen", async () => {
  const pages = await Promise.all([[], ["--help"], ["help"]].map((argv) => hpctrain(argv)));
  for (const { code, out } of pages) assertEquals([code, out], [0, guide() + "\n"]);
  assert(guide().split("\n").length <= 24);
  for (const { name } of COMMANDS) assert(new RegExp(`[ ,]${name}(,|$)`, "m").test(guide()), name);
});

Deno.test("every command is in one group of the guide", () => {
  const names = Object.values(GROUPS).flat();
  for (const { name } of COMMANDS) assertEquals(names.filter((other) => other === name), [name]);
});

Deno.test("every command's help has an example, and what is made here fits 100 columns", async () => {
  for (const command of COMMANDS) {
    const { code, said } = await inProcess([command.name, "--help"]);
    assertEquals(code, 0, command.name);
    assert(/\bexamples?\b/i.test(said), command.name);
    assertStringIncludes(said, `hpctrain ${command.name === "train" ? "" : command.name}`);
    if ((await command.load()).ownHelp) continue;
    for (const line of said.split("\n")) assert(line.length <= 100, line);
  }
});

Deno.test("every example in help names flags that exist", async () => {
  for (const { load } of COMMANDS) {
    const { examples, settings, options = {} } = await load();
    if (!settings) continue;
    const known = ["preset", "config", "set", ...FLAGS.keys(), ...Object.keys(options)];
    for (const example of examples) {
      for (const [, flag] of example.matchAll(/--([a-z-]+)/g)) assert(known.includes(flag), example);
    }
  }
});

Deno.test("train --help-all shows every flag, --help the common ones", async () => {
  const train = COMMANDS[0];
  const all = await commandHelp(train, true);
  for (const name of FLAGS.keys()) {
    if (!name.startsWith("no-")) assert(all.includes(`--${name}`) || all.includes(`--[no-]${name}`), name);
  }
  const common = await commandHelp(train, false);
  assert(common.includes("--lr ") && !common.includes("--nesterov"));
  for (const name of ["features", "targets", "normalise", "lead", "split", "early-stopping-patience"]) {
    assert(common.includes(`  --${name} `), name);
  }
});

Deno.test("bare flags mean train, so their help is train's", async () => {
  assertEquals(
    (await hpctrain(["--preset", "debug", "--help"])).out,
    await commandHelp(COMMANDS[0], false) + "\n",
  );
});

Deno.test("--version prints the version of deno.json", async () => {
  const { version } = JSON.parse(await Deno.readTextFile(new URL("../../deno.json", import.meta.url)));
  assertEquals(VERSION, version);
  assertEquals((await hpctrain(["--version"])).out, `hpctrain ${version}\n`);
});

Deno.test("an unknown command is one sentence on stderr and exit code 2", async () => {
  const { code, out, err } = await hpctrain(["trian"]);
  assertEquals([code, out, err], [2, "", 'hpctrain: Unknown command "trian". Did you mean "train"?\n']);
  assertStringIncludes((await hpctrain(["zzz"])).err, "The commands are train, ");
  assertStringIncludes((await hpctrain(["run.yaml"])).err, "hpctrain --config run.yaml");
});

Deno.test("--trace-errors tells where an error came from, for any command and before or behind it; --debug does not", async () => {
  const lines = async (...argv: string[]) => (await hpctrain(argv)).err.trim().split("\n");
  assertEquals((await lines("inspect", "/no/such/file")).length, 1);
  for (const argv of [["inspect", "/no/such/file", "--trace-errors"], ["--trace-errors", "--epochs", "0"]]) {
    const [sentence, ...stack] = await lines(...argv);
    assert(sentence.startsWith("hpctrain: ") && stack.some((line) => /^\s+at /.test(line)), stack.join("\n"));
  }
  const [sentence, hint, ...more] = await lines("--debug", "--epochs", "0");
  assertStringIncludes(sentence, "--epochs must be");
  assertSentence("commands/help: debug preset debug", hint);
  assertEquals(more, []);
});

Deno.test("a command's help and completions list what it takes, and other flags are refused", async () => {
  const flagsOf = (text: string) =>
    new Set([...text.matchAll(/--(?:\[no-\])?([a-z][\w-]*)/g)].map(([, name]) => name));
  const training = [
    "epochs",
    "lr",
    "learning-rate",
    "optimizer",
    "scheduler",
    "ema",
    "resume",
    "save-every-epoch",
  ];
  const others = ["preset", "debug", "wandb", "wandb-project", "partition", "time", "keep-last"];
  const completions = (await hpctrain(["completions", "bash"])).out;
  for (const command of COMMANDS.filter(({ name }) => ["eval", "predict", "export"].includes(name))) {
    const { name } = command;
    const listed = flagsOf([...(await commandHelp(command, true)).matchAll(/^ {2}--.*$/gm)].join("\n"));
    const line = new RegExp(`^    ${name}\\) words=.*$`, "m");
    const completed = findCommand("completions") ? flagsOf(line.exec(completions)![0]) : listed;
    for (const flag of [...training, ...others]) {
      assert(!listed.has(flag) && !completed.has(flag), `${name} --${flag}`);
    }
    if (name !== "export") {
      assert(["data-path", "device", "threads", "json", "eval-batch-size"].every((f) => listed.has(f)));
    }
  }
  for (const words of [["predict", "x.pt", "--out", "y.npz"], ["eval", "x.pt"]]) {
    if (!COMMANDS.some(({ name }) => name === words[0])) continue;
    const { code, err } = await hpctrain([...words, "--epochs", "3"]);
    assertEquals(code, 2);
    assertSentence("commands/help: epochs training epochs", err);
  }
  for (const { name, load } of COMMANDS) {
    const { settings } = await load();
    if (typeof settings !== "function") continue;
    assert(ALL_SETTINGS.some(({ path }) => settings(path)) && !settings("training.epochs"), name);
  }
});
