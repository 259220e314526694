// docs/settings.md, made from the declarations. May import the declarations only.
import { variablesOf } from "./environment.ts";
import { defaultInWords } from "./help.ts";
import { SECTION_ALIASES, SECTION_TITLES } from "./settings.ts";
import { ALL, type Declared } from "./tree.ts";
import { expected } from "./values.ts";

const INTRO = `# Settings

Every setting, by section. This page is made by \`hpctrain config --docs\`; a test keeps it true.

Defaults give way to a preset, a preset to YAML files (\`--config\`), files to the environment, and the
environment to flags. A setting answers to its path, in YAML and in \`--set path=value\`; to its flag, where it
has one; and to two variables, \`HPCTRAIN_\` followed by its path or by its flag, in capitals and with
underscores for dots and dashes; a few have one without the prefix. Flags of other programs that mean the same
are named after "also". A default in italics is what happens when the setting is left alone.
`;

export function settingsPage(): string {
  const sections = Object.entries(SECTION_TITLES).map(([section, title]) => {
    const spelling = Object.keys(SECTION_ALIASES).find((alias) => SECTION_ALIASES[alias] === section);
    const also = spelling ? ` (also \`${spelling}\`)` : "";
    const rows = ALL.filter(({ path }) => path.startsWith(`${section}.`)).map(row);
    return `## ${title}: \`${section}\`${also}\n\n${
      table(["Setting", "Flag", "Takes", "Default", "What it is"], rows)
    }`;
  });
  return [INTRO, ...sections].join("\n");
}

function row(declared: Declared): string[] {
  const { path, setting } = declared;
  const flags = [...(setting.flag ? [setting.flag] : []), ...Object.keys(setting.shortcuts ?? {})];
  const also = [
    ...(setting.spellings ?? []).map((name) => `--${name}`),
    ...Object.entries(setting.words ?? {}).map(([word, value]) => `${word} (${value})`),
    ...(setting.aliases ?? []),
    ...variablesOf(declared).filter((v) => !v.startsWith("HPCTRAIN_")),
  ];
  return [
    code(path),
    flags.map((flag) => code(`--${flag}`)).join(", "),
    expected(setting),
    setting.empty ? `_${setting.empty}_` : code(defaultInWords(setting)),
    setting.help + (also.length > 0 ? `; also ${also.map(code).join(", ")}` : ""),
  ];
}

function code(text: string): string {
  return `\`${text}\``;
}

/** Padded as the formatter pads it. */
function table(head: string[], rows: string[][]): string {
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((cells) => cells[i].length)));
  const line = (cells: string[]) => `| ${cells.map((cell, i) => cell.padEnd(widths[i])).join(" | ")} |\n`;
  return line(head) + line(widths.map((width) => "-".repeat(width))) + rows.map(line).join("");
}
