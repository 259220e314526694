// The flags as a shell completes them. May import the declarations only.
import { SOURCE_FLAGS } from "./flags.ts";
import { OF_A_START } from "./help.ts";
import { PRESET_NAMES } from "./presets.ts";
import { ALL, FLAGS } from "./tree.ts";

export interface CompletedFlag {
  readonly name: string;
  readonly help: string;
  /** Absent for a switch. */
  readonly value?: { readonly choices?: readonly string[]; readonly files?: boolean };
}

/** Every flag of the settings, and those that name where settings come from. */
export function settingFlags(takes: (path: string) => boolean, ofCheckpoint: boolean): CompletedFlag[] {
  const sources: CompletedFlag[] = [
    { name: "preset", help: plain(SOURCE_FLAGS.preset.help), value: { choices: PRESET_NAMES } },
    { name: "debug", help: plain(SOURCE_FLAGS.debug.help) },
    { name: "config", help: SOURCE_FLAGS.config.help, value: { files: true } },
    { name: "set", help: SOURCE_FLAGS.set.help, value: { choices: ALL.map(({ path }) => `${path}=`) } },
    { name: "help-all", help: "show every setting" },
  ];
  const taken = [...FLAGS].filter(([, { declared }]) => takes(declared.path));
  const settings = taken.map(([name, { declared: { setting }, fixed, spelling }]): CompletedFlag => {
    if (fixed !== undefined) {
      return { name, help: name.startsWith("no-") ? `not: ${setting.help}` : setting.help };
    }
    const files = setting.kind === "path" || setting.orFile !== undefined;
    // Who begins with another program's flag goes on with its words.
    const words = spelling ? Object.keys(setting.words ?? {}) : [];
    const choices = setting.choices && [...setting.choices, ...words];
    return { name, help: setting.help, value: { choices, files } };
  });
  const shown = sources.filter(({ name }) => !ofCheckpoint || !OF_A_START.includes(name));
  return [...shown, ...settings];
}

function plain(help: string): string {
  return help.replaceAll("`", "");
}
