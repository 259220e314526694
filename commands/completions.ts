// `hpctrain completions SHELL`: a script the shell evaluates. Imports core/config and the table of commands.
import { UserError } from "../core/errors.ts";
import { type CompletedFlag, settingFlags } from "../core/config/completed.ts";
import { type OptionSpec, parseOptions } from "../core/config/options.ts";
import { PRESET_NAMES } from "../core/config/presets.ts";
import { didYouMean } from "../core/config/suggest.ts";
import { bash, fish, zsh } from "./completion_scripts.ts";
import { type Command, COMMANDS } from "./mod.ts";

const USAGE = "hpctrain completions bash|zsh|fish";
const SHELLS = { bash, zsh, fish };

/** A command as a shell sees it. */
export interface CompletedCommand {
  readonly name: string;
  readonly summary: string;
  readonly words: readonly string[];
  readonly flags: readonly CompletedFlag[];
}

// deno-lint-ignore require-await
export async function completions(argv: string[]): Promise<number> {
  const { positionals: [shell, extra] } = parseOptions(argv, {}, USAGE);
  if (shell === undefined) throw new UserError("usage", `Which shell? Usage: ${USAGE}`);
  if (extra !== undefined) throw new UserError("usage", `Unexpected argument "${extra}". Usage: ${USAGE}`);
  if (!Object.hasOwn(SHELLS, shell)) {
    const hint = didYouMean(shell, Object.keys(SHELLS));
    throw new UserError("usage", `No completions for "${shell}".${hint} Usage: ${USAGE}`);
  }
  console.log(SHELLS[shell as keyof typeof SHELLS](COMMANDS.map(completed)));
  return 0;
}

function completed(command: Command): CompletedCommand {
  const { name, summary, settings, ofCheckpoint = false, options = {} } = command;
  const flags = [
    ...(settings ? settingFlags(settings === true ? () => true : settings, ofCheckpoint) : []),
    ...Object.entries(options).map(([flag, option]) => optionFlag(flag, option)),
    { name: "help", help: "show help" },
    { name: "trace-errors", help: "tell where in the program an error came from" },
  ];
  return {
    name,
    summary,
    words: name === "presets" ? PRESET_NAMES : command.words ?? [],
    flags: [...new Map(flags.map((flag) => [flag.name, flag])).values()],
  };
}

function optionFlag(name: string, { kind, help }: OptionSpec): CompletedFlag {
  return kind === "bool" ? { name, help } : { name, help, value: { files: true } };
}
