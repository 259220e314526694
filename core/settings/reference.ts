// Makes the settings' lines of help, the JSON Schema for editors, the page of all settings, and the flags that a shell
// completes from the declarations.
import { isSetting, type Setting, type SettingGroup } from "./setting.ts";
import {
  ALL_SETTINGS,
  type Declared,
  FLAGS,
  isHere,
  SECTION_ALIASES,
  SECTION_TITLES,
  SETTINGS,
} from "./settings.ts";
import { variablesOf } from "./environment.ts";
import { expected } from "./values.ts";
import { SOURCE_FLAGS } from "./flags.ts";
import { PRESET_NAMES } from "./presets.ts";
import { RECIPE_NAMES } from "./recipes.ts";

const WIDTH = 100;

const LEFT = 34;

interface HelpOptions {
  readonly all: boolean;
  readonly takes?: (path: string) => boolean;
  readonly ofCheckpoint?: boolean;
}

/** No line is longer than 100 columns. */
export function settingsHelp({ all, takes = () => true, ofCheckpoint = false }: HelpOptions): string {
  const sources = Object.entries(SOURCE_FLAGS)
    .filter(([name]) => !ofCheckpoint || !START_FLAGS.includes(name))
    .map(([name, { value, help }]) => helpLine(`--${name}${value ? ` ${value}` : ""}`, help));
  const blocks = ["Where settings come from", ...sources];
  for (const [section, title] of Object.entries(SECTION_TITLES)) {
    const shown = ALL_SETTINGS.filter(({ path, setting }) =>
      path.startsWith(`${section}.`) && takes(path) && (all || setting.common)
    );
    if (shown.length > 0) blocks.push("", title, ...shown.flatMap(settingLines));
  }
  return blocks.join("\n");
}

const START_FLAGS = ["preset", "debug"];

export function helpLine(left: string, right: string): string {
  const lines = [""];
  for (const word of right.split(" ")) {
    const last = lines.length - 1;
    if ((lines[last] + " " + word).length > WIDTH - LEFT - 2) lines.push(word);
    else lines[last] = lines[last] === "" ? word : `${lines[last]} ${word}`;
  }
  const indent = "\n" + " ".repeat(LEFT + 2);
  const head = left.length < LEFT ? `  ${left.padEnd(LEFT)}` : `  ${atChoices(left)}${indent}`;
  return head + lines.join(indent);
}

/** A long list of choices goes on below the first of them. */
function atChoices(left: string, begin = left.indexOf(" ") + 1, room = WIDTH - 2): string {
  if (left.length <= room) return left;
  const cut = left.lastIndexOf("|", room - 1) + 1;
  if (cut === 0 || cut <= begin && room === WIDTH - 2) return left;
  return `${left.slice(0, cut)}\n${" ".repeat(begin + 2)}${
    atChoices(left.slice(cut), begin, WIDTH - 2 - begin)
  }`;
}

/** It tells what 0 or an empty text stand for. */
export function describeDefault(setting: Setting): string {
  return setting.empty ?? String(setting.default);
}

export function placeholder({ kind, choices, orFile, separator = "," }: Setting): string {
  const names = {
    int: "N",
    float: "NUMBER",
    bool: "true|false",
    text: "TEXT",
    path: "PATH",
    list: ["A", "B", "..."].join(separator),
    duration: "DURATION",
  };
  return kind === "choice" ? [...choices, ...(orFile ? ["FILE"] : [])].join("|") : names[kind];
}

function settingLines({ path, setting }: Declared): string[] {
  const { flag, spellings = [], kind, help } = setting;
  const also = spellings.length > 0 ? `; also ${spellings.map((name) => `--${name}`).join(", ")}` : "";
  const about = `${help}${also} [${describeDefault(setting)}]`;
  const shortcuts = Object.entries(setting.shortcuts ?? {})
    .map(([name, value]) => helpLine(`--${name}`, `short for --set ${path}=${value}`));
  const left = !flag
    ? `--set ${path}=${placeholder(setting)}`
    : kind === "bool"
    ? `--[no-]${flag}`
    : setting.bare
    ? `--${flag}[=${placeholder(setting)}]`
    : `--${flag} ${placeholder(setting)}`;
  return [helpLine(left, about), ...shortcuts];
}

type Schema = Record<string, unknown>;

/** The schema is 2020-12, and knows second spellings. */
export function jsonSchema(): Schema {
  const root = groupSchema(SETTINGS, "");
  const properties = root.properties as Record<string, Schema>;
  for (const [alias, section] of Object.entries(SECTION_ALIASES)) {
    properties[alias] = { $ref: `#/properties/${section}` };
  }
  return { $schema: "https://json-schema.org/draft/2020-12/schema", title: "hpctrain settings", ...root };
}

function groupSchema(group: SettingGroup, path: string): Schema {
  const properties: Record<string, Schema> = {};
  for (const [key, node] of Object.entries(group)) {
    if (isSetting(node) && !isHere(node)) continue;
    properties[key] = isSetting(node) ? settingSchema(node) : groupSchema(node, join(path, key));
  }
  for (const [alias, setting] of aliasesUnder(path)) properties[alias] ??= settingSchema(setting);
  const schema = { type: "object", properties, additionalProperties: false };
  const short = ALL_SETTINGS.find(({ setting }) => setting.aliases?.includes(path))?.setting;
  return short ? { ...schema, type: undefined, anyOf: [{ type: "object" }, settingSchema(short)] } : schema;
}

function aliasesUnder(path: string): [string, Setting][] {
  return ALL_SETTINGS.flatMap(({ setting }) =>
    (setting.aliases ?? [])
      .filter((alias) => alias.includes(".") && alias.slice(0, alias.lastIndexOf(".")) === path)
      .map((alias): [string, Setting] => [alias.slice(alias.lastIndexOf(".") + 1), setting])
  );
}

function settingSchema(setting: Setting): Schema {
  const description = setting.empty ? `${setting.help} (default: ${setting.empty})` : setting.help;
  return { description, default: setting.default, ...orNull(setting, typeSchema(setting)) };
}

function typeSchema(setting: Setting): Schema {
  const { min, max, above, below } = setting;
  switch (setting.kind) {
    case "int":
    case "float": {
      const number = {
        type: setting.kind === "int" ? "integer" : "number",
        [above ? "exclusiveMinimum" : "minimum"]: min,
        [below ? "exclusiveMaximum" : "maximum"]: max,
      };
      const words = Object.keys(setting.words ?? {});
      return words.length === 0 ? number : { anyOf: [number, { enum: words }] };
    }
    case "bool":
      return { type: "boolean" };
    case "choice":
      if (setting.orFile) {
        return {
          type: "string",
          pattern: [
            `^(${[...setting.choices, ...Object.keys(setting.words ?? {})].join("|")})$`,
            ...[setting.orFile, setting.orText].flatMap((or) => or ? [or.regex.source] : []),
          ].join("|"),
        };
      }
      return {
        enum: [
          ...setting.choices,
          ...Object.keys(setting.words ?? {}),
          ...(setting.no === undefined ? [] : [true, false]),
        ],
      };
    case "list":
      return {
        type: ["array", "string"],
        items: setting.choices.length > 0
          ? { enum: setting.choices }
          : { type: ["string", "number", ...setting.separator ? ["object"] : []] },
      };
    case "duration":
      return { type: ["string", "number"] };
    case "path":
    case "text":
      return { type: ["string", "number"], pattern: setting.pattern && `^$|${setting.pattern.regex.source}` };
  }
}

function orNull(setting: Setting, schema: Schema): Schema {
  if (setting.empty === undefined) return schema;
  if (schema.enum) return { enum: [...schema.enum as unknown[], null] };
  return { ...schema, type: [schema.type, "null"].flat() };
}

function join(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}

const INTRO = `# Settings

Every setting, by section, as \`hpctrain config --docs\` prints them.

Defaults give way to a preset, a preset to a recipe (\`--recipe\`), a recipe to YAML files (\`--config\`), files to the environment, and the
environment to flags. A setting answers to its path, in YAML and in \`--set path=value\`; to its flag, where it
has one; and to two variables, \`HPCTRAIN_\` followed by its path or by its flag, in capitals and with
underscores for dots and dashes; a few have one without the prefix. Flags of other programs that mean the same
are named after "also". A default in italics is what happens when the setting is left alone.
`;

export const settingsPage = (): string => `${INTRO}\n${settingsTables()}`;

/** Each section of settings under its heading. */
export function settingsTables(): string {
  const sections = Object.entries(SECTION_TITLES).map(([section, title]) => {
    const spelling = Object.keys(SECTION_ALIASES).find((alias) => SECTION_ALIASES[alias] === section);
    const also = spelling ? ` (also \`${spelling}\`)` : "";
    const settings = ALL_SETTINGS.filter(({ path }) => path.startsWith(`${section}.`));
    const choices = settings.flatMap(({ path, setting: { about } }) => {
      const rows = Object.entries(about ?? {}).map(([choice, line]) => [code(choice), line]);
      return rows.length > 0 ? ["\n" + table([code(path), "What it is"], rows)] : [];
    });
    return `## ${title}: \`${section}\`${also}\n\n${
      table(["Setting", "Flag", "Takes", "Default", "What it is"], settings.map(row))
    }${choices.join("")}`;
  });
  return sections.join("\n");
}

function row(declared: Declared): string[] {
  const { path, setting } = declared;
  const flags = [...(setting.flag ? [setting.flag] : []), ...Object.keys(setting.shortcuts ?? {})];
  const also = [
    ...(setting.spellings ?? []).map((name) => `--${name}`),
    ...(setting.kind === "choice" ? Object.entries(setting.words ?? {}) : []).map(([word, value]) =>
      `${word} (${value})`
    ),
    ...(setting.aliases ?? []),
    ...variablesOf(declared).filter((v) => !v.startsWith("HPCTRAIN_")),
  ];
  return [
    code(path),
    flags.map((flag) => code(`--${flag}`)).join(", "),
    expected(setting),
    setting.empty ? `_${setting.empty}_` : code(describeDefault(setting)),
    setting.help + (also.length > 0 ? `; also ${also.map(code).join(", ")}` : ""),
  ];
}

function code(text: string): string {
  return `\`${text}\``;
}

function table(head: string[], rows: string[][]): string {
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((cells) => cells[i].length)));
  const line = (cells: string[]) => `| ${cells.map((cell, i) => cell.padEnd(widths[i])).join(" | ")} |\n`;
  return line(head) + line(widths.map((width) => "-".repeat(width))) + rows.map(line).join("");
}

export interface CompletedFlag {
  readonly name: string;
  readonly help: string;
  readonly value?: { readonly choices?: readonly string[]; readonly files?: boolean };
}

export function settingFlags(takes: (path: string) => boolean, ofCheckpoint: boolean): CompletedFlag[] {
  const sources: CompletedFlag[] = [
    { name: "preset", help: plain(SOURCE_FLAGS.preset.help), value: { choices: PRESET_NAMES } },
    { name: "debug", help: plain(SOURCE_FLAGS.debug.help) },
    { name: "recipe", help: plain(SOURCE_FLAGS.recipe.help), value: { choices: RECIPE_NAMES } },
    { name: "config", help: SOURCE_FLAGS.config.help, value: { files: true } },
    {
      name: "set",
      help: SOURCE_FLAGS.set.help,
      value: { choices: ALL_SETTINGS.map(({ path }) => `${path}=`) },
    },
    { name: "help-all", help: "show every setting" },
  ];
  const taken = [...FLAGS].filter(([, { declared }]) => takes(declared.path));
  const settings = taken.map(([name, { declared: { setting }, fixed, spelling }]): CompletedFlag => {
    if (fixed !== undefined) {
      return { name, help: name.startsWith("no-") ? `not: ${setting.help}` : setting.help };
    }
    const files = setting.kind === "path" || setting.orFile !== undefined;
    // A user of another program's flag continues with its words.
    const words = spelling || setting.kind === "int" ? Object.keys(setting.words ?? {}) : [];
    const all = [...setting.choices, ...words], choices = all.length > 0 ? all : undefined;
    return { name, help: setting.help, value: { choices, files } };
  });
  const shown = sources.filter(({ name }) => !ofCheckpoint || !START_FLAGS.includes(name));
  return [...shown, ...settings];
}

function plain(help: string): string {
  return help.replaceAll("`", "");
}
