// YAML files: the spellings that must work, and a sentence with a position for each mistake.
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { configTable } from "../../../commands/config.ts";
import { Mistakes } from "../../../core/settings/values.ts";
import { parseSettings as parse, readText } from "../../../core/settings/yaml.ts";
import { UserError } from "../../../core/base/errors.ts";
import { fromArgv, fromFile, refusal, refusedFile } from "./helpers.ts";
import { threadSeconds } from "../../cpu_time.ts";
import { assertSentence, sentenceNamed } from "../../sentences.ts";

const ICE = `model: { input_size: 7, hidden_size: 64, output_size: 1 }
data: { data_path: "ice.nc", validation_split: 0.1, num_workers: 4 }
training:
  epochs: 200
  batch_size: 128
  optimizer: { type: "adam", learning_rate: 0.001, weight_decay: 1e-5 }
  scheduler: { type: "cosine" }
  early_stopping_patience: 20
  log_interval: 100
  save_interval: 50
  use_amp: true
  profile_training: true
  log_gpu_memory: true
output: { model_dir: "models/" }
`;

/** Alone, as a preset is read. */
function parseSettings(source: string, name: string) {
  const mistakes = new Mistakes();
  const parsed = parse(source, name, mistakes);
  mistakes.refuse();
  return parsed;
}

Deno.test("the YAML of the contract works as it stands", () => {
  const { config, originText } = fromFile(ICE);
  assertEquals(config.model.input_size, 7);
  assertEquals(config.data.data_path, "ice.nc");
  assertEquals(config.data.num_workers, 4);
  assertEquals(config.training.epochs, 200);
  assertEquals(config.training.batch_size, 128);
  assertEquals(config.training.optimizer.type, "adam");
  assertEquals(config.training.optimizer.weight_decay, 1e-5);
  assertEquals(config.training.early_stopping_patience, 20);
  assertEquals(config.training.save_interval, "50steps");
  assertEquals(config.training.amp, "auto");
  assertEquals(config.training.profile_training, true);
  assertEquals(config.output.model_dir, "models/");
  assert(originText("training.optimizer.weight_decay").endsWith("run.yaml:6:66"));
});

Deno.test("train: is another spelling of training:, with the number of nodes in it", () => {
  const { config } = fromFile("train: { num_nodes: 2, batch_size: 32 }");
  assertEquals([config.distributed.nodes, config.training.batch_size], [2, 32]);
});

Deno.test("short spellings: a name for a section, lr, and use_amp: false", () => {
  const { config } = fromFile(
    "model: resnet18\ndata: mnist\ntraining: { lr: 1e-5, optimizer: sgd, scheduler: step, use_amp: false, warmup: 1ep }",
  );
  assertEquals(config.model.name, "resnet18");
  assertEquals(config.data.type, "mnist");
  assertEquals(config.training.optimizer.learning_rate, 1e-5);
  assertEquals(config.training.optimizer.type, "sgd");
  assertEquals(config.training.scheduler, { ...config.training.scheduler, type: "step", warmup: "1ep" });
  assertEquals(config.training.amp, "off");
});

Deno.test("--config reads a JSON file, which is YAML too", () => {
  assertEquals(fromFile('{"training": {"epochs": 3, "lr": 1e-4}}').config.training.epochs, 3);
});

Deno.test("an alias brings the anchor's value", () => {
  const { config } = fromFile("training: { batch_size: &b 32, eval_batch_size: *b }");
  assertEquals(config.training.eval_batch_size, 32);
});

Deno.test("null stands for the default where that is none, and an empty section is no mistake", () => {
  assertEquals(fromFile("data:\ntraining: { max_steps: null, epochs: 2 }").config.training.max_steps, 0);
  assertStringIncludes(
    refusedFile("training:\n  epochs:\n"),
    sentenceNamed("core/settings/files: run yaml training"),
  );
});

Deno.test("a printed preset works as a file", () => {
  assertEquals(
    fromFile("about: mine\nlayout: { nodes: 1 }\ntraining: { epochs: 2 }").config.training.epochs,
    2,
  );
});

const MISTAKES: [string, string, string][] = [
  [
    "an unknown key",
    "training:\n  epoch: 3",
    sentenceNamed("core/settings/files: run yaml unknown"),
  ],
  [
    "a key in the wrong section",
    "epochs: 3",
    sentenceNamed("core/settings/files: run yaml unknown key"),
  ],
  [
    "an unknown section",
    "zzz: {}",
    sentenceNamed("core/settings/files: run yaml unknown key zzz"),
  ],
  ["a key given twice", "training:\n  epochs: 3\n  epochs: 4", 'run.yaml:3:3: "epochs" is given twice'],
  [
    "a setting in two spellings",
    "training:\n  lr: 1\ntrain:\n  learning_rate: 2",
    sentenceNamed("core/settings/files: run yaml training optimizer"),
  ],
  [
    "a wrong type",
    "training:\n  epochs: many",
    sentenceNamed("core/settings/files: run yaml training epochs"),
  ],
  ["a number in quotes", 'training:\n  epochs: "3"', "Remove the quotes to make it a number."],
  ["a fraction for a whole number", "training: { batch_size: 1.5 }", "run.yaml:1:25: training.batch_size"],
  [
    "a number out of range",
    "data: { validation_split: 1 }",
    sentenceNamed("core/settings/files: run yaml data"),
  ],
  [
    "not a number",
    "training: { lr: .nan }",
    sentenceNamed("core/settings/files: run yaml training optimizer learning_rate"),
  ],
  ["infinity", "training: { lr: .inf }", "but got Infinity."],
  ["a wrong choice", "training: { optimizer: { type: adamm } }", 'Did you mean "adamw"?'],
  ["a list for a number", "training: { epochs: [1, 2] }", "but got [1,2]."],
  ["a map for a number", "training: { epochs: { a: 1 } }", "but got {}."],
  [
    "text for a section",
    "output: here",
    sentenceNamed("core/settings/files: run yaml output"),
  ],
  [
    "a list for the file",
    "- a\n- b",
    sentenceNamed("core/settings/files: run yaml expected"),
  ],
  ["an empty file", "# nothing\n", "run.yaml: the file holds no settings."],
  ["a bracket left open", "training: { epochs: 3", "run.yaml:1:22: not readable as YAML:"],
  ["a tab", "training:\n\tepochs: 3", "run.yaml:2:1: not readable as YAML:"],
  [
    "two documents",
    "training: { epochs: 3 }\n---\ntraining: { epochs: 4 }",
    "a second YAML document starts here",
  ],
  [
    "a tag that asks for an object",
    "training: !!python/object:os.system { epochs: 3 }",
    "run.yaml:1:11: not readable as YAML:",
  ],
  ["an alias without its anchor", "training: { epochs: *no }", "run.yaml:1:21"],
  ["a name that objects have", "constructor: { prototype: 1 }", 'run.yaml:1:1: unknown key "constructor"'],
  [
    "a prototype",
    "training: { __proto__: { epochs: 3 } }",
    sentenceNamed("core/settings/files: run yaml unknown key proto"),
  ],
  ["a merge key", "training: { <<: { epochs: 3 } }", "YAML merge keys (<<) are not supported."],
];

for (const [what, source, expected] of MISTAKES) {
  Deno.test(`refused with a sentence: ${what}`, () => assertStringIncludes(refusedFile(source), expected));
}

Deno.test("an alias bomb is refused at once", () => {
  const levels = Array.from(
    { length: 30 },
    (_, i) => `k${i + 1}: &a${i + 1} [${Array(9).fill(`*a${i}`).join(", ")}]`,
  );
  const before = threadSeconds();
  assertStringIncludes(refusedFile(["k0: &a0 x", ...levels].join("\n")), "run.yaml:1:1: unknown key");
  assertStringIncludes(refusedFile(`about: &a0 x\n${levels.join("\n")}`), "run.yaml:2:1: unknown key");
  const tags = `output: { run_name: &n a }\nwandb: { tags: [${Array(200).fill("*n").join(", ")}] }`;
  assertStringIncludes(refusedFile(tags), "more than 100 YAML aliases");
  assert(threadSeconds() - before < 1);
});

Deno.test("brackets nested without end, many keys and large files are refused within seconds", () => {
  const before = threadSeconds();
  assertStringIncludes(refusedFile("[".repeat(200_000)), "nest too deep");
  assertStringIncludes(refusedFile("- ".repeat(100_000)), "nest too deep");
  assertStringIncludes(
    refusedFile(Array.from({ length: 20_000 }, (_, i) => `k${i}: 1`).join("\n")),
    "unknown key",
  );
  assertStringIncludes(refusedFile("#".repeat(1 << 20)), "a file of settings has at most");
  assert(threadSeconds() - before < 5);
});

Deno.test("a file that is missing, a folder or not text is refused with its name", () => {
  assertStringIncludes(refusal({ argv: ["--config", "no-such.yaml"] }), "no-such.yaml: no such file.");
  assertStringIncludes(refusal({ argv: ["--config", Deno.cwd()] }), "but this is a folder.");
  assertStringIncludes(refusedFile(new Uint8Array([0xff, 0xfe, 0x80, 0x81])), "run.yaml: not a text file");
});

Deno.test("of two files of --config the later one's values win, and the other's rest stays", () => {
  const other = Deno.makeTempFileSync({ suffix: ".yaml" });
  try {
    Deno.writeTextFileSync(other, "training: { epochs: 9 }");
    const { config, files } = fromFile("training: { epochs: 3, batch_size: 7 }", "--config", other);
    assertEquals([config.training.epochs, config.training.batch_size, files.length], [9, 7, 2]);
  } finally {
    Deno.removeSync(other);
  }
});

Deno.test("a setting that no layer names has the origin default", () => {
  assertEquals(fromArgv().originText("training.epochs"), "default");
});

Deno.test("a pipe, a device and an endless file are refused at once", async () => {
  const folder = Deno.makeTempDirSync();
  try {
    const pipe = `${folder}/pipe.yaml`;
    await new Deno.Command("mkfifo", { args: [pipe] }).output();
    for (const path of [pipe, "/dev/zero"]) {
      const error = assertThrows(() => readText(path), UserError);
      assertSentence("core/settings/files: expected yaml file", error.message, { path });
    }
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("a pipe that a shell makes is read, and no further than a page of settings", async () => {
  const module = new URL("../../../core/settings/yaml.ts", import.meta.url);
  const read = (content: string) => {
    const program = `import { readText } from "${module}"; console.log(readText(Deno.args[0]).length);`;
    const args = ["-c", `"$0" eval -c deno.json '${program}' <(${content})`, Deno.execPath()];
    return new Deno.Command("bash", { args }).output();
  };
  assertEquals(new TextDecoder().decode((await read("echo epochs: 3")).stdout), "10\n");
  assertStringIncludes(new TextDecoder().decode((await read("yes")).stderr), "at most 262144 bytes");
});

Deno.test("keys on one line without end are a sentence, and a key's odd characters are shown, not printed", () => {
  const deep = assertThrows(() => parseSettings(`model: { ${"a: ".repeat(3000)}}\n`, "run.yaml"), UserError);
  assertStringIncludes(deep.message, sentenceNamed("core/settings/files: run yaml brackets"));
  const odd = assertThrows(() => parseSettings('"epo\\x1b[2Jchs": 3', "run.yaml"), UserError);
  assertStringIncludes(odd.message, String.raw`unknown key "epo\u001b[2Jchs" at the top`);
});

Deno.test("a long text in place of settings is shown by its beginning, and the table of config by what writes a file", () => {
  const said = (text: string) => refusedFile(text);
  assert(said("x".repeat(20_000)).length < 250);
  assert(said(`training: ${"x".repeat(20_000)}`).length < 250);
  assert(
    said(`training:\n  ${"x".repeat(900)}: 3`).indexOf("in training") < 150,
    said(`training:\n  ${"x".repeat(900)}: 3`),
  );
  assertStringIncludes(
    said(configTable(fromFile("training: { epochs: 3 }"))),
    "is written by `hpctrain config ... --yaml`",
  );
});
