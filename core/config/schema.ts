// The settings as JSON Schema, for editors. May import the declarations only.
import { type Group, isSetting, type Setting } from "./kinds.ts";
import { SECTION_ALIASES, SETTINGS } from "./settings.ts";
import { ALL } from "./tree.ts";

type Schema = Record<string, unknown>;

/** JSON Schema (2020-12) of a YAML file of settings, second spellings included. */
export function jsonSchema(): Schema {
  const root = groupSchema(SETTINGS, "");
  const properties = root.properties as Record<string, Schema>;
  for (const [alias, section] of Object.entries(SECTION_ALIASES)) {
    properties[alias] = { $ref: `#/properties/${section}` };
  }
  return { $schema: "https://json-schema.org/draft/2020-12/schema", title: "hpctrain settings", ...root };
}

function groupSchema(group: Group, path: string): Schema {
  const properties: Record<string, Schema> = {};
  for (const [key, node] of Object.entries(group)) {
    properties[key] = isSetting(node) ? settingSchema(node) : groupSchema(node, join(path, key));
  }
  for (const [alias, setting] of aliasesUnder(path)) properties[alias] ??= settingSchema(setting);
  const schema = { type: "object", properties, additionalProperties: false };
  const short = ALL.find(({ setting }) => setting.aliases?.includes(path))?.setting;
  return short ? { ...schema, type: undefined, anyOf: [{ type: "object" }, settingSchema(short)] } : schema;
}

/** Aliases whose last key belongs in this group. */
function aliasesUnder(path: string): [string, Setting][] {
  return ALL.flatMap(({ setting }) =>
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
    case "float":
      return {
        type: setting.kind === "int" ? "integer" : "number",
        [above ? "exclusiveMinimum" : "minimum"]: min,
        [below ? "exclusiveMaximum" : "maximum"]: max,
      };
    case "bool":
      return { type: "boolean" };
    case "choice":
      if (setting.orFile) {
        return {
          type: "string",
          pattern: `^(${setting.choices!.join("|")})$|${setting.orFile.regex.source}`,
        };
      }
      return {
        enum: [
          ...setting.choices!,
          ...Object.keys(setting.words ?? {}),
          ...(setting.no === undefined ? [] : [true, false]),
        ],
      };
    case "list":
      return { type: ["array", "string"], items: { type: ["string", "number"] } };
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
