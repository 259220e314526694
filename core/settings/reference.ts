// Makes the JSON Schema for editors, the page of all settings, and the flags that a shell completes from the
// declarations.
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
import { describeDefault, START_FLAGS } from "./help.ts";
import { expected } from "./values.ts";
import { SOURCE_FLAGS } from "./flags.ts";
import { PRESET_NAMES } from "./presets.ts";

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
          pattern: `^(${setting.choices.join("|")})$|${setting.orFile.regex.source}`,
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
        items: setting.choices.length > 0 ? { enum: setting.choices } : { type: ["string", "number"] },
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

Defaults give way to a preset, a preset to YAML files (\`--config\`), files to the environment, and the
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
