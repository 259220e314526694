// `hpctrain` alone and `--help` print what stands here.
import { helpLine, settingsHelp } from "../core/settings/reference.ts";
import { VERSION } from "../core/base/version.ts";
import { type CommandEntry, COMMANDS } from "./mod.ts";

/** A purpose -> the names of its commands, for the guide. A name that is no command yet is passed over. */
export const GROUPS: Readonly<Record<string, readonly string[]>> = {
  "training": [
    "train",
    "eval",
    "predict",
    "generate",
    "export",
    "launch",
    "find-lr",
    "find-batch",
    "schedule",
  ],
  "on a cluster": ["sbatch", "qsub", "sweep", "status", "logs", "cancel", "doctor", "bench"],
  "looking at runs": ["runs", "watch", "report", "inspect", "sync-wandb", "python"],
  "data": ["generate-data", "pack"],
  "models": ["adopt", "models", "new", "types", "convert"],
  "settings": ["config", "presets", "libtorch", "completions"],
};

/** One screen for who typed the name alone. */
export function guide(): string {
  const known = new Set(COMMANDS.map(({ name }) => name));
  const commands = Object.entries(GROUPS).map(([purpose, names]) => {
    const shown = names.filter((name) => known.has(name));
    return shown.length > 0 ? [helpLine(purpose, shown.join(", "))] : [];
  }).flat();
  return `hpctrain ${VERSION}: trains PyTorch models from one file, without Python

Start here
${helpLine("hpctrain --preset quickstart", "a first run: no data, no GPU, under 2 minutes")}
${helpLine("hpctrain --config run.yaml", "train with your own settings")}
${helpLine("hpctrain config --config run.yaml", "check them first: each value and its origin")}
${helpLine("hpctrain launch -n 4 -- FLAGS", "train on four GPUs, or in four ranks, of this machine")}

Commands
${commands.join("\n")}

Help
${helpLine("hpctrain COMMAND --help", "a command's own help, with an example")}
${helpLine("hpctrain train --help-all", "every setting")}`;
}

const TRACE = helpLine("--trace-errors", "tell where in the program an error came from, and its causes");

export async function commandHelp(
  { name, summary, load }: CommandEntry,
  all: boolean,
): Promise<string> {
  const command = await load();
  const examples = command.examples.map((example) => `  ${example}`);
  const blocks = [
    `${command.usage}\n\n${sentence(summary)}`,
    `Example${examples.length > 1 ? "s" : ""}\n${examples.join("\n")}`,
  ];
  const options = Object.entries(command.options ?? {});
  if (options.length > 0) {
    const lines = options.map(([option, { value, help }]) =>
      helpLine(`--${option}${value ? " " + value : ""}`, help)
    );
    blocks.push(`Options\n${lines.join("\n")}`);
  }
  if (command.settings) {
    const { settings, ofCheckpoint } = command;
    blocks.push(settingsHelp({ all, takes: settings === true ? undefined : settings, ofCheckpoint }));
    if (!all) {
      blocks.push(`These are the common flags. hpctrain ${name} --help-all shows every setting.`);
    }
  }
  blocks.push(`Everywhere\n${TRACE}`);
  return blocks.join("\n\n");
}

function sentence(text: string): string {
  return text[0].toUpperCase() + text.slice(1) + ".";
}
