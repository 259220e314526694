// One declaration a setting: everything that is made from it holds for every setting.
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { jsonSchema, settingsHelp, settingsPage } from "../../../core/settings/reference.ts";
import { variablesOf } from "../../../core/settings/environment.ts";
import { SOURCE_FLAGS } from "../../../core/settings/flags.ts";
import { resolveSettings } from "../../../core/settings/resolve.ts";
import type { OPTIMIZER_READS } from "../../../core/settings/sections/optimizer.ts";
import {
  ALL_SETTINGS,
  allPaths,
  type Config,
  defaultConfig,
  FLAGS,
  readSetting,
} from "../../../core/settings/settings.ts";
import { fromData } from "../../../core/settings/values.ts";
import { fromArgv, fromFile, sample } from "./helpers.ts";

/** `a.b.c` and a value as a YAML file. */
function asYaml(path: string, value: unknown): string {
  const keys = path.split(".");
  const lines = keys.map((key, depth) => `${"  ".repeat(depth)}${key}:`);
  return `${lines.join("\n")} ${JSON.stringify(value)}\n`;
}

function schemaAt(path: string): Record<string, unknown> | undefined {
  let node: unknown = jsonSchema();
  for (const key of path.split(".")) {
    node = (node as { properties: Record<string, unknown> } | undefined)?.properties?.[key];
  }
  return node as Record<string, unknown> | undefined;
}

Deno.test("every setting is reached by --set, and says so", () => {
  for (const { path, setting } of ALL_SETTINGS) {
    const { text, data } = sample(setting);
    assertNotEquals(data, setting.default, path);
    const { config, originText } = fromArgv("--set", `${path}=${text}`);
    assertEquals(readSetting(config, path), data, path);
    assertEquals(originText(path), `--set ${path}`);
  }
});

Deno.test("every flag reaches its setting, with a value after a space or an equals sign", () => {
  for (const [name, { declared: { path, setting }, fixed }] of FLAGS) {
    if (fixed !== undefined) {
      assertEquals(readSetting(fromArgv(`--${name}`).config, path), fixed, name);
      continue;
    }
    const { text, data } = sample(setting);
    assertEquals(readSetting(fromArgv(`--${name}`, text).config, path), data, name);
    assertEquals(readSetting(fromArgv(`--${name}=${text}`).config, path), data, name);
    assertEquals(fromArgv(`--${name}=${text}`).originText(path), `--${name}`);
  }
});

Deno.test("every setting is reached by YAML, and its origin is file:line:column", () => {
  for (const { path, setting } of ALL_SETTINGS) {
    const { data } = sample(setting);
    const { config, originText } = fromFile(asYaml(path, data));
    assertEquals(readSetting(config, path), data, path);
    const keys = path.split(".");
    const column = 2 * (keys.length - 1) + keys.at(-1)!.length + 3;
    assert(originText(path).endsWith(`run.yaml:${keys.length}:${column}`), originText(path));
  }
});

Deno.test("every setting is reached by each of its variables", () => {
  for (const declared of ALL_SETTINGS) {
    const { text, data } = sample(declared.setting);
    for (const name of variablesOf(declared)) {
      const { config, originText } = resolveSettings({ argv: [], env: { [name]: text } });
      assertEquals(readSetting(config, declared.path), data, name);
      assertEquals(originText(declared.path), `env ${name}`);
    }
  }
});

Deno.test("every setting and every alias is in the schema", () => {
  for (const { path, setting } of ALL_SETTINGS) {
    assertEquals(schemaAt(path)?.default, setting.default, path);
    assert(String(schemaAt(path)?.description).startsWith(setting.help), path);
  }
  const groups = ["model", "data", "training.optimizer", "training.scheduler"];
  for (const path of allPaths()) assert(schemaAt(path) || groups.includes(path), path);
});

Deno.test("every setting is on the page of settings and in the long help", () => {
  const page = settingsPage();
  const help = settingsHelp({ all: true });
  for (const { path, setting } of ALL_SETTINGS) {
    assert(page.includes(`| \`${path}\``), path);
    assert(help.includes(setting.flag ?? path), path);
  }
});

Deno.test("every default is a value its setting takes", () => {
  for (const declared of ALL_SETTINGS) {
    const { value } = fromData(declared, declared.setting.default, { kind: "default" });
    assertEquals(value, declared.setting.default, declared.path);
  }
});

Deno.test("no two settings share a flag, a variable, a path or an alias", () => {
  const flags = ALL_SETTINGS.flatMap(({ setting: { flag, spellings = [], shortcuts = {} } }) => [
    ...(flag ? [flag] : []),
    ...spellings,
    ...Object.keys(shortcuts),
  ]);
  assertEquals(flags.length, new Set(flags).size);
  const variables = ALL_SETTINGS.flatMap(variablesOf);
  assertEquals(variables.length, new Set(variables).size);
  assertEquals(allPaths().length, new Set(allPaths()).size);
});

Deno.test("every flag of the command line's contract exists", () => {
  const flags =
    `epochs max-steps batch-size global-batch-size lr lr-scaling optimizer weight-decay scheduler warmup
    grad-accum clip-norm amp compile no-compile gradient-checkpointing model data-type data-path train-samples
    val-samples validation-split num-workers stage resume init-from save-dir save-interval keep-last
    early-stopping-patience log-interval ema seed deterministic threads device distributed-backend world-size rank
    local-rank master-addr master-port timeout wandb-project wandb-run-name wandb-entity wandb-tags no-wandb
    wandb-offline wandb-online profile-training log-gpu-memory debug quiet json any-layout save-every-epoch run-name
    libtorch`.split(/\s+/);
  for (const flag of flags) assert(FLAGS.has(flag) || Object.hasOwn(SOURCE_FLAGS, flag), flag);
});

Deno.test("the configuration is plain JSON, and its type is the declaration's", () => {
  const config: Config = defaultConfig();
  assertEquals(JSON.parse(JSON.stringify(config)), config);
  const rate: number = config.training.optimizer.learning_rate;
  const kind: keyof typeof OPTIMIZER_READS = config.training.optimizer.type;
  // @ts-expect-error a choice is a union of its literals, not text
  const text: "adabound" = config.training.optimizer.type;
  assertEquals([rate, kind, text as string], [3e-4, "adamw", "adamw"]);
});

Deno.test("two configurations do not share a list", () => {
  defaultConfig().wandb.tags.push("mine");
  assertEquals(defaultConfig().wandb.tags, []);
});

Deno.test("the flag of each is printed by help in at most 100 columns", () => {
  for (const line of settingsHelp({ all: true }).split("\n")) assert(line.length <= 100, line);
});
