// `hpctrain config`: each setting's value and its origin. `hpctrain presets`: the embedded presets.
import { stringify } from "../deps/yaml.ts";
import { helpLine, jsonSchema, settingsPage } from "../core/settings/reference.ts";
import { parseOptions } from "../core/settings/options.ts";
import { type Resolved, resolveSettings } from "../core/settings/resolve.ts";
import { ALL_SETTINGS, type Declared, readSetting } from "../core/settings/settings.ts";
import { asWritten, asWrittenAll } from "../core/settings/values.ts";
import { valuesWithoutSecrets } from "../core/base/secrets.ts";
import { UserError } from "../core/base/errors.ts";
import { loadSite, SITE_NAMES } from "../core/settings/sites.ts";
import { describeLayout, loadPreset, PRESET_NAMES } from "../core/settings/presets.ts";
import { loadRecipe, RECIPE_NAMES } from "../core/settings/recipes.ts";
import type { Command } from "./mod.ts";

const USAGE = "hpctrain config [FLAGS] [--changed] [--json | --yaml | --schema | --docs]";

const OPTIONS = {
  json: { kind: "bool", help: "print the configuration and the origins as JSON" },
  yaml: { kind: "bool", help: "print the configuration as a YAML file that --config reads" },
  changed: { kind: "bool", help: "only what differs from the default" },
  schema: { kind: "bool", help: "print the JSON Schema of a YAML file, for editors" },
  docs: { kind: "bool", help: "print the page of all settings as Markdown" },
} as const;

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain config --preset cpu --lr 1e-3 --changed",
    "hpctrain config --preset cpu --yaml > run.yaml",
  ],
  settings: true,
  options: OPTIONS,
  run: config,
};

// deno-lint-ignore require-await
export async function config(argv: string[]): Promise<number> {
  const own = argv.filter((word) => Object.hasOwn(OPTIONS, word.replace(/^--/, "")) && word.startsWith("--"));
  const { options } = parseOptions(own, OPTIONS, USAGE);
  if (options.schema) return print(JSON.stringify(jsonSchema(), null, 2));
  if (options.docs) return print(settingsPage().trimEnd());
  const resolved = resolveSettings({
    argv: argv.filter((word) => !own.includes(word)),
    env: Deno.env.toObject(),
    usage: USAGE,
    job: { command: "train" },
  });
  const shown = options.changed
    ? ALL_SETTINGS.filter((declared) => differs(resolved, declared))
    : ALL_SETTINGS;
  if (options.yaml) return print(stringify(valuesOf(resolved, shown)).trimEnd());
  if (options.json) return print(JSON.stringify(asJson(resolved, shown), null, 2));
  return print(shown.length > 0 ? configTable(resolved, shown) : "Every setting has its default.");
}

const differs = ({ config, origin }: Resolved, { path, setting }: Declared): boolean =>
  origin(path).kind !== "default" &&
  JSON.stringify(readSetting(config, path)) !== JSON.stringify(setting.default);

const valuesOf = ({ config }: Resolved, shown: readonly Declared[]): object =>
  valuesWithoutSecrets(asWrittenAll(config, shown));

function asJson(resolved: Resolved, shown: readonly Declared[]) {
  const { originText, preset, files } = resolved;
  const origins = Object.fromEntries(shown.map(({ path }) => [path, originText(path)]));
  return { preset, files, config: valuesOf(resolved, shown), origin: origins };
}

/** Grouped by section, in three aligned columns. */
export function configTable(
  { config, originText }: Resolved,
  listed: readonly Declared[] = ALL_SETTINGS,
): string {
  const rows = listed.map((declared) => {
    const { path, setting } = declared;
    const value = valuesWithoutSecrets(asWritten(declared, readSetting(config, path)));
    const plain = Array.isArray(value) ? value.join(setting.separator ?? ",") : String(value);
    const stands = setting.empty && JSON.stringify(value) === JSON.stringify(setting.default);
    const shown = stands ? `${plain} (${setting.empty})`.trim() : plain;
    return {
      section: path.split(".")[0],
      key: path.slice(path.indexOf(".") + 1),
      shown,
      from: originText(path),
    };
  });
  const keys = Math.max(...rows.map(({ key }) => key.length));
  const values = Math.min(44, Math.max(...rows.map(({ shown }) => shown.length)));
  const lines = rows.map(({ section, key, shown, from }, i) => {
    const title = section === rows[i - 1]?.section ? "" : `${i > 0 ? "\n" : ""}${section}\n`;
    return `${title}  ${key.padEnd(keys)}  ${shown.padEnd(values)}  ${from}`;
  });
  return lines.join("\n");
}

function print(text: string): number {
  console.log(text);
  return 0;
}

// `hpctrain presets`: lists the embedded presets, recipes and sites, or prints one.

const PRESETS_USAGE = "hpctrain presets [NAME]";

export const presetsCommand: Command = {
  usage: PRESETS_USAGE,
  examples: ["hpctrain presets", "hpctrain presets cpu > run.yaml", "hpctrain presets lumi > my-site.yaml"],
  words: [...PRESET_NAMES, ...RECIPE_NAMES, ...SITE_NAMES],
  run: presets,
};

// deno-lint-ignore require-await
export async function presets(argv: string[]): Promise<number> {
  const { positionals: [name, extra] } = parseOptions(argv, {}, PRESETS_USAGE);
  if (extra !== undefined) {
    throw new UserError("usage", `Unexpected argument "${extra}". Usage: ${PRESETS_USAGE}`);
  }
  console.log(
    name === undefined
      ? [tableOfPresets(), tableOfRecipes(), tableOfSites()].join("\n\n")
      : sourceOf(name).trimEnd(),
  );
  return 0;
}

const isOneOf = (names: readonly string[], name: string): boolean => names.includes(name);

const sourceOf = (name: string): string =>
  isOneOf(SITE_NAMES, name)
    ? loadSite(name, { kind: "default" }).source
    : isOneOf(RECIPE_NAMES, name)
    ? loadRecipe(name).source
    : loadPreset(name, "hpctrain presets").source;

const tableOfSites = (): string =>
  [
    "Clusters, for sbatch --site NAME:",
    ...SITE_NAMES.map((name) => helpLine(name, loadSite(name, { kind: "default" }).about)),
  ].join("\n");

const tableOfRecipes = (): string =>
  [
    "Recipes, for --recipe NAME:",
    ...RECIPE_NAMES.map((name) => helpLine(name, loadRecipe(name).about)),
  ].join("\n");

function tableOfPresets(): string {
  return PRESET_NAMES.map((name) => loadPreset(name))
    .map(({ name, about, layout }) => helpLine(name, `${about} [${describeLayout(layout)}]`))
    .join("\n");
}
