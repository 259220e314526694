// The settings as lines of help.
import { SOURCE_FLAGS } from "./flags.ts";
import type { Setting } from "./setting.ts";
import { ALL_SETTINGS, type Declared, SECTION_TITLES } from "./settings.ts";

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

export const START_FLAGS = ["preset", "debug"];

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
function atChoices(left: string): string {
  if (left.length <= WIDTH - 2) return left;
  const cut = left.lastIndexOf("|", WIDTH - 3) + 1, begin = left.indexOf(" ") + 1;
  return cut <= begin ? left : `${left.slice(0, cut)}\n${" ".repeat(begin + 2)}${atChoices(left.slice(cut))}`;
}

/** It tells what 0 or an empty text stand for. */
export function describeDefault(setting: Setting): string {
  return setting.empty ?? String(setting.default);
}

export function placeholder({ kind, choices, orFile }: Setting): string {
  const names = {
    int: "N",
    float: "NUMBER",
    bool: "true|false",
    text: "TEXT",
    path: "PATH",
    list: "A,B,...",
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
