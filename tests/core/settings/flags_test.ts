// The command line: spellings, order, and a sentence for each mistake.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { ALL_SETTINGS, FLAGS, readSetting } from "../../../core/settings/settings.ts";
import { fromArgv, refusal } from "./helpers.ts";
import { resolveSettings } from "../../../core/settings/resolve.ts";
import { assertSentence, sentenceNamed } from "../../sentences.ts";

Deno.test("the last of two flags wins, whatever their spelling", () => {
  assertEquals(fromArgv("--epochs", "3", "--epochs=4").config.training.epochs, 4);
  assertEquals(fromArgv("--lr", "1", "--set", "training.lr=2").config.training.optimizer.learning_rate, 2);
  assertEquals(fromArgv("--set", "training.lr=2", "--lr", "1").config.training.optimizer.learning_rate, 1);
  assertEquals(fromArgv("--compile", "--no-compile").config.training.compile, "off");
  assertEquals(fromArgv("--wandb-online", "--wandb-offline").config.wandb.mode, "offline");
});

Deno.test("switches take no word, and a value only after an equals sign", () => {
  const deterministic = (...argv: string[]) => fromArgv(...argv).config.training.deterministic;
  assertEquals(deterministic("--deterministic", "--epochs", "2"), "on");
  assertEquals(deterministic("--deterministic=world"), "world");
  assertEquals(deterministic("--deterministic", "--no-deterministic"), "off");
  assertEquals(deterministic("--set", "training.deterministic=true"), "on"); // as it was saved once
  assertEquals(fromArgv("--compile=false").config.training.compile, "off");
  assertEquals(fromArgv("--compile", "--epochs", "2").config.training.compile, "on");
  assertEquals(fromArgv("--set", "training.compile=true").config.training.compile, "on");
  assertEquals(fromArgv("--compile=exact").config.training.compile, "exact");
  assertEquals(fromArgv("--no-wandb").config.wandb.enabled, false);
  assertEquals(fromArgv("--no-amp").config.training.amp, "off");
  assertEquals(fromArgv("--no-tf32").config.training.tf32, false);
});

Deno.test("a negative number is a value, not a flag", () => {
  assertEquals(fromArgv("--set", "training.ignore_index=-1").config.training.ignore_index, -1);
  assertEquals(fromArgv("--rank", "-1").config.distributed.rank, -1);
});

Deno.test("numbers may have an exponent, and a bare duration has its setting's first unit", () => {
  const { config } = fromArgv("--lr", "1e-5", "--train-samples", "2e3", "--warmup", "500", "--timeout", "90");
  assertEquals(config.training.optimizer.learning_rate, 1e-5);
  assertEquals(config.data.train_samples, 2000);
  assertEquals(config.training.scheduler.warmup, "500steps");
  assertEquals(config.distributed.timeout, "90s");
});

Deno.test("lists are split at commas, and an empty text takes a name back", () => {
  assertEquals(fromArgv("--features", "a, b,c").config.data.features, ["a", "b", "c"]);
  assertEquals(fromArgv("--preset", "debug", "--run-name=").config.output.run_name, "");
});

Deno.test("flags may follow positionals, and all after -- is positional", () => {
  const argv = ["run.pt", "--epochs", "3", "--", "--lr"];
  const { positionals, config } = resolveSettings({ argv, env: {}, positionals: 2 });
  assertEquals([...positionals], ["run.pt", "--lr"]);
  assertEquals(config.training.epochs, 3);
});

Deno.test("underscores are dashes, in flags that take a value and in those that do not", () => {
  const { training, output } = fromArgv("--batch_size", "3", "--no_tf32", "--run_name=a_b").config;
  assertEquals([training.batch_size, training.tf32, output.run_name], [3, false, "a_b"]);
});

Deno.test("a script for Hugging Face's Trainer, for Lightning or for timm says what it means", () => {
  const trainer = fromArgv(
    ...[
      "--per_device_train_batch_size",
      "8",
      "--gradient_accumulation_steps",
      "4",
      "--num_train_epochs",
      "3",
    ],
    ...["--learning_rate", "2e-5", "--warmup_steps", "100", "--lr_scheduler_type", "constant_with_warmup"],
    ...[
      "--optim",
      "adamw_torch",
      "--adam_beta2",
      "0.98",
      "--max_grad_norm",
      "1.0",
      "--bf16",
      "--output_dir",
      "out",
    ],
    ...["--logging_steps", "10", "--dataloader_num_workers", "2", "--save_steps", "500"],
  );
  const { training, data, output } = trainer.config;
  const { optimizer, scheduler } = training;
  assertEquals([training.batch_size, training.grad_accum, training.epochs], [8, 4, 3]);
  assertEquals([optimizer.learning_rate, optimizer.type, optimizer.beta2], [2e-5, "adamw", 0.98]);
  assertEquals([scheduler.warmup, scheduler.type], ["100steps", "constant"]);
  assertEquals([training.clip_norm, training.amp, training.log_interval], [1, "bf16", 10]);
  assertEquals([output.save_dir, data.num_workers, training.save_interval], ["out", 2, "500steps"]);
  assertEquals(trainer.originText("training.optimizer.learning_rate"), "--learning-rate");
  const lightning = fromArgv(
    ...[
      "--max_epochs",
      "7",
      "--accumulate_grad_batches",
      "2",
      "--gradient_clip_val=0.5",
      "--accelerator=gpu",
    ],
    ...["--precision", "16-mixed", "--num_nodes", "2", "--log_every_n_steps", "5", "--patience", "3"],
  ).config;
  assertEquals([lightning.training.epochs, lightning.training.grad_accum], [7, 2]);
  assertEquals([lightning.training.clip_norm, lightning.training.device], [0.5, "cuda"]);
  assertEquals([lightning.training.amp, lightning.distributed.nodes], ["fp16", 2]);
  assertEquals([lightning.training.log_interval, lightning.training.early_stopping_patience], [5, 3]);
  const fingers = fromArgv(
    "--data-dir",
    "x",
    "--time-limit",
    "01:00:00",
    "--workers",
    "1",
    "--precision",
    "32",
  );
  assertEquals([fingers.config.data.data_path, fingers.config.cluster.time], ["x", "01:00:00"]);
  assertEquals([fingers.config.data.num_workers, fingers.config.training.amp], [1, "off"]);
});

Deno.test("--debug is the preset debug, also beside it", () => {
  for (const argv of [["--debug"], ["--debug", "--preset", "debug"]]) {
    const { preset, config } = fromArgv(...argv);
    assertEquals([preset, config.output.run_name, config.training.epochs], ["debug", "debug", 3]);
  }
  assertEquals(fromArgv("--debug", "--epochs", "1").config.training.epochs, 1);
});

const MISTAKES: [string[], string][] = [
  [["--lrr", "3"], 'Unknown flag --lrr. Did you mean "--lr"?'],
  [["--batch_sise", "3"], 'Unknown flag --batch_sise. Did you mean "--batch-size"?'],
  [["--learning_rat", "3"], 'Did you mean "--learning-rate"?'],
  [
    ["--nproc_per_node=4"],
    sentenceNamed("core/settings/flags: unknown flag nproc_per_node"),
  ],
  [
    ["--devices", "4"],
    sentenceNamed("core/settings/flags: hpctrain launch flags"),
  ],
  [["--gpus=4"], sentenceNamed("core/settings/flags: unknown flag gpus")],
  [["--strategy", "ddp"], sentenceNamed("core/settings/flags: unknown flag strategy")],
  [["--warmup_ratio", "0.1"], "--warmup 500steps or --warmup 1ep."],
  [["--export=ALL,EPOCHS=3"], "`sbatch --export=ALL,EPOCHS=200 FILE`"],
  [["--precision", "bf16-true"], sentenceNamed("core/settings/flags: got true weights")],
  [["--accelerator", "mps"], sentenceNamed("core/settings/flags: hpctrain computes cpus")],
  [["--model", "resnet81"], 'Did you mean "resnet18"?'],
  [["--model", "bert"], "must be one of mlp, simple-convnet"],
  [["--debug", "--preset", "cpu"], "--trace-errors says where an error came from."],
  [["--debug=true"], '--debug takes no value, but got "true".'],
  [["--set", "training.num_train_epochs=1"], 'Did you mean "training.epochs"?'],
  [["--early-stopping", "3"], 'Did you mean "--early-stopping-patience"?'],
  [["-x"], "Unknown flag -x."],
  [["-lr", "3"], 'Unknown flag -lr. Did you mean "--lr"?'],
  [["--__proto__", "3"], "Unknown flag --__proto__."],
  [["--toString=3"], "Unknown flag --toString."],
  [["--epochs"], "--epochs needs a whole number from 1 to 1e9."],
  [["--epochs", "--lr", "3"], "--epochs needs a whole number from 1 to 1e9."],
  [["--epochs="], sentenceNamed("core/settings/flags: epochs value after")],
  [["--epochs", ""], "--epochs= has no value"],
  [["--epochs", "abc"], sentenceNamed("core/settings/flags: epochs training epochs")],
  [["--epochs", "1.5"], "but got 1.5."],
  [["--epochs", "0"], "but got 0."],
  [["--epochs", "1e400"], "but got Infinity."],
  [["--lr", "NaN"], 'must be a number from 0 to 1e6, but got "NaN".'],
  [["--lr", "-1"], "but got -1."],
  [["--lr", "0x10"], 'but got "0x10".'],
  [["--amp", "fp8"], sentenceNamed("core/settings/flags: amp training amp")],
  [["--optimizer", "adm"], 'Did you mean "adam"?'],
  [["--compile=maybe"], sentenceNamed("core/settings/flags: compile training compile")],
  [["--no-compile=true"], '--no-compile takes no value, but got "true".'],
  [["--compile", "false"], "--compile=false, or --no-compile."],
  [["--deterministic", "world"], sentenceNamed("core/settings/flags: takes equals sign")],
  [["--deterministic=wrold"], 'Did you mean "world"?'],
  [["--warmup", "3parsecs"], sentenceNamed("core/settings/flags: duration such steps")],
  [["--warmup", "10min"], "--warmup must be a duration"],
  [["--data", "t.csv"], "--data-path t.csv."],
  [["--data", "my photos"], "--data-path 'my photos'."],
  [["--run-name", "../evil"], "a name for files"],
  [["--run-name", "a\nb"], "a name for files"],
  [["--set"], "--set needs KEY=VALUE."],
  [["--set", "training.epochs"], "--set needs KEY=VALUE, such as training.epochs=10"],
  [["--set", "training.nope=1"], '--set: unknown setting "training.nope".'],
  [["--set", "training.epoch=1"], 'Did you mean "training.epochs"?'],
  [["--set", "epochs=1"], 'Did you mean "training.epochs"?'],
  [["--set", "training=1"], '--set: unknown setting "training".'],
  [
    ["--set", "training.epochs=x"],
    sentenceNamed("core/settings/flags: set training epochs"),
  ],
  [["--preset", "cpuu"], '--preset: unknown preset "cpuu". Did you mean "cpu"?'],
  [["--preset", "../debug"], '--preset: unknown preset "../debug".'],
  [["run.yaml"], "To read settings from it: --config run.yaml."],
];

for (const [argv, expected] of MISTAKES) {
  Deno.test(`refused with a sentence: ${JSON.stringify(argv.join(" "))}`, () => {
    assertStringIncludes(refusal({ argv }), expected);
  });
}

Deno.test("every flag of a value refuses to stand alone, but one that users know as a switch", () => {
  for (const [name, { fixed, declared: { path, setting } }] of FLAGS) {
    if (fixed !== undefined) continue;
    if (setting.yes === undefined) assertStringIncludes(refusal({ argv: [`--${name}`] }), `--${name} needs `);
    else {for (const more of [[], ["--epochs=2"]]) {
        assertEquals(readSetting(fromArgv(`--${name}`, ...more).config, path), setting.yes, name);
      }}
  }
});

Deno.test("a choice is known in any capitals and however its words are joined, unless two would be meant", () => {
  const { model, training } =
    fromArgv("--model=SimpleConvNet", "--optimizer=AdamW", "--scheduler=One_Cycle").config;
  assertEquals([model.name, training.optimizer.type, training.scheduler.type], [
    "simple-convnet",
    "adamw",
    "onecycle",
  ]);
  for (const preset of ["single_gpu", "Single-GPU", "singlegpu"]) {
    assertEquals(fromArgv("--preset", preset).preset, "single-gpu");
  }
  assertStringIncludes(refusal({ argv: ["--model=SimpleConvNets"] }), 'Did you mean "simple-convnet"?');
});

Deno.test("a switch of another spelling is also taken back", () => {
  assertEquals(fromArgv("--use-amp", "--no-use-amp").config.training.amp, "off");
});

Deno.test("a refusal of a flag's value speaks of the flag that was typed, and not of its setting", () => {
  const typed = ALL_SETTINGS.filter(({ setting: { kind, flag, bare } }) =>
    flag && !bare && ["int", "float", "choice", "duration"].includes(kind)
  );
  assert(typed.length > 50);
  for (const { path, setting: { flag, spellings = [] } } of typed) {
    for (const name of [flag, ...spellings]) {
      const said = refusal({ argv: [`--${name}=no such value`] });
      assertStringIncludes(said, `--${name} must be `);
      assert(!said.includes(path), said);
    }
  }
  const bySet = refusal({ argv: ["--set", "training.lr=x"] });
  assertStringIncludes(bySet, "training.optimizer.learning_rate (--lr) must be"); // the name in files, and the flag
});

Deno.test("a mistake that a flag and a variable make together is one: job scripts make flags of variables", () => {
  const said = refusal({ argv: ["--epochs=abc"], env: { EPOCHS: "abc" } });
  assertSentence("core/settings/flags: epochs training epochs", said);
  assertStringIncludes(refusal({ argv: ["--epochs=abc"], env: { EPOCHS: "abd" } }), "2 mistakes");
});
