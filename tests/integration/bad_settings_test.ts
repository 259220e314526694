// What a user can misspell or mistype: a sentence, exit code 2, and nothing written.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { filesIn, inTemp, run } from "./program.ts";
import { within } from "../cpu_time.ts";

/** `says` in one sentence on stderr, nothing on stdout, nothing in the folder beyond what was there. */
async function refused(
  args: string[],
  says: RegExp,
  { files = {}, env, mistakes = 1 }: {
    files?: Record<string, string>;
    env?: Record<string, string>;
    mistakes?: number;
  } = {},
): Promise<void> {
  await inTemp(async (cwd) => {
    for (const [name, text] of Object.entries(files)) Deno.writeTextFileSync(join(cwd, name), text);
    const { code, stdout, stderr } = await run(args, { cwd, env, timeout: 120 });
    assertMatch(stderr, says);
    assertEquals([code, stdout], [2, ""], stderr);
    const whole = mistakes === 1 ? /^hpctrain: [^\n]+[.?]\n$/ : new RegExp(
      `^hpctrain: The configuration has ${mistakes} mistakes[^\\n]*\\n( {2}[^\\n]+[.?]\\n){${mistakes}}$`,
    );
    assertMatch(stderr, whole, "one line, a whole sentence, for each mistake");
    assertEquals(filesIn(cwd), Object.keys(files).sort());
  });
}

const lines: [name: string, args: string[], says: RegExp][] = [
  ["a misspelt flag", ["--epoch", "3"], /Unknown flag --epoch\. Did you mean "--epochs"\?/],
  ["a flag like no other", ["--frobnicate"], /Unknown flag --frobnicate\..*--help/],
  ["a misspelt command", ["trian"], /Unknown command "trian"\. Did you mean "train"\?/],
  ["a YAML file where a command stands", ["run.yaml"], /hpctrain --config run\.yaml/],
  ["a misspelt preset", ["--preset", "quikstart"], /unknown preset "quikstart".*Did you mean "quickstart"/],
  [
    "a misspelt setting",
    ["--set", "training.epoch=3"],
    /unknown setting "training\.epoch".*training\.epochs/,
  ],
  [
    "a misspelt optimizer",
    ["--optimizer", "adamm"],
    /one of adamw, adam, sgd, lamb, .*"adamm".*Did you mean/,
  ],
  [
    "a misspelt model",
    ["--model", "mpl"],
    /--model must be one of .* but got "mpl"\. Did you mean "mlp"\?/,
  ],
  [
    "a number below its range",
    ["--epochs", "0"],
    /--epochs must be a whole number from 1 to 1e9, but got 0/,
  ],
  ["a number above its range", ["--momentum", "1"], /must be a number from 0 and below 1, but got 1/],
  ["a fraction for a count", ["--batch-size", "2.5"], /--batch-size .*a whole number.*but got 2\.5/],
  ["a word for a number", ["--lr", "fast"], /--lr must be a number from 0 to 1e6, but got "fast"/],
  ["a duration without sense", ["--save-interval", "often"], /a duration such as .*but got "often"/],
  ["a flag without its value", ["--epochs"], /--epochs/],
  [
    "a preset for another layout",
    ["--preset", "multi-node"],
    /2 or more GPUs.*hpctrain sbatch --preset multi-node/,
  ],
  ["half precision on a CPU", ["--preset", "debug", "--device", "cpu", "--amp", "fp16"], /--amp bf16/],
  ["a world without a rank", ["--world-size", "4"], /--world-size is 4, and nothing says which rank this is/],
  ["more nodes than there are", ["--nodes", "2"], /--nodes asks for 2 nodes, and this is 1 rank on 1 node/],
  [
    "made-up data with a data path",
    ["--preset", "debug", "--data-path", "digits"],
    /synthetic, which makes its own data.*digits.*--data-type/,
  ],
];
for (const [name, args, says] of lines) {
  Deno.test(`${name} on the command line is refused with a sentence`, () => refused(args, says));
}

Deno.test("a misspelt variable is refused with a sentence", () =>
  refused(["--preset=debug"], /HPCTRAIN_EPOCH: .*Did you mean HPCTRAIN_EPOCHS\?/, {
    env: { HPCTRAIN_EPOCH: "3" },
  }));

const files: [name: string, yaml: string, says: RegExp][] = [
  ["a syntax error", "training:\n  epochs: [1\n", /run\.yaml:\d+:\d+: not readable as YAML/],
  ["a tab for blanks", "training:\n\tepochs: 1\n", /run\.yaml:2:1: not readable as YAML: .*[Tt]ab/],
  ["a duplicate key", "training:\n  epochs: 1\n  epochs: 2\n", /run\.yaml:3:3: "epochs" is given twice/],
  ["a misspelt key", "training:\n  epoch: 1\n", /run\.yaml:2:3: unknown key "epoch" in training.*"epochs"/],
  ["a wrong type", "training:\n  epochs: {a: 1}\n", /run\.yaml:2:11: training\.epochs .*a whole number/],
  [
    "a list for a section",
    "training: [1, 2]\n",
    /run\.yaml:1:11: training is a section.*but found a list/,
  ],
  ["a quoted number", "training:\n  epochs: '3'\n", /run\.yaml:2:11: .*Remove the quotes/],
  ["nothing in it", "# soon\n", /run\.yaml: the file holds no settings/],
];
for (const [name, yaml, says] of files) {
  Deno.test(`a YAML file with ${name} is refused with its line and column`, () =>
    refused(["--config", "run.yaml"], says, { files: { "run.yaml": yaml } }));
}

Deno.test("a YAML file that is not there, or is a folder, is refused with a sentence", async () => {
  await refused(["--config", "run.yaml"], /run\.yaml: no such file/);
  await refused(["--config", "/"], /expected a YAML file, but this is a folder/);
});

Deno.test("an alias bomb is refused at once, wherever in the file it goes off", async () => {
  const levels = Array.from(
    { length: 24 },
    (_, i) => `a${i}: &a${i} [${i === 0 ? "x" : Array(9).fill(`*a${i - 1}`)}]`,
  );
  const began = performance.now();
  const atTop = [...levels, ""].join("\n");
  await refused(["--config", "run.yaml"], /run\.yaml:1:1: unknown key "a0"/, {
    files: { "run.yaml": atTop },
    mistakes: 20, // no more are told
  });
  const inList = `data:\n  features:\n${
    levels.map((level) => `    - &${level.split("&")[1]}\n`).join("")
  }    - *a23\n`;
  await refused(["--config", "run.yaml"], /run\.yaml:\d+:\d+: /, { files: { "run.yaml": inList } });
  const inAbout = `about:\n${levels.map((level) => `  ${level}\n`).join("")}epochs: 1\n`;
  await refused(["--config", "run.yaml"], /run\.yaml:26:1: unknown key "epochs"/, {
    files: { "run.yaml": inAbout },
  });
  const many = `data:\n  targets: [&a x]\n  features: [${Array(101).fill("*a")}]\n`;
  await refused(["--config", "run.yaml"], /run\.yaml:3:\d+: more than 100 YAML aliases/, {
    files: { "run.yaml": many },
  });
  assert(within((performance.now() - began) / 1000, 6), "four starts of the program, and no expansion");
});
