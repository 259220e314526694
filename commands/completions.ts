// `hpctrain completions`: the completions of bash, zsh and fish, from the table of commands.
import { UserError } from "../core/base/errors.ts";
import { type CompletedFlag, settingFlags } from "../core/settings/reference.ts";
import { type OptionSpec, parseOptions } from "../core/settings/options.ts";
import { didYouMean } from "../core/base/suggest.ts";
import { type Command, type CommandEntry, COMMANDS } from "./mod.ts";

const USAGE = "hpctrain completions bash|zsh|fish";

export const command: Command = {
  usage: USAGE,
  examples: ['eval "$(hpctrain completions bash)"', "hpctrain completions fish | source"],
  words: ["bash", "zsh", "fish"],
  run: completions,
};
const SHELLS = { bash, zsh, fish };

/** A command as a shell sees it. */
interface CompletedCommand {
  readonly name: string;
  readonly summary: string;
  readonly words: readonly string[];
  readonly flags: readonly CompletedFlag[];
}

export async function completions(argv: string[]): Promise<number> {
  const { positionals: [shell, extra] } = parseOptions(argv, {}, USAGE);
  if (shell === undefined) throw new UserError("usage", `Which shell? Usage: ${USAGE}`);
  if (extra !== undefined) throw new UserError("usage", `Unexpected argument "${extra}". Usage: ${USAGE}`);
  if (!Object.hasOwn(SHELLS, shell)) {
    const hint = didYouMean(shell, Object.keys(SHELLS));
    throw new UserError("usage", `No completions for "${shell}".${hint} Usage: ${USAGE}`);
  }
  console.log(SHELLS[shell as keyof typeof SHELLS](await Promise.all(COMMANDS.map(completed))));
  return 0;
}

async function completed({ name, summary, load }: CommandEntry): Promise<CompletedCommand> {
  const { settings, ofCheckpoint = false, options = {}, words = [] } = await load();
  const flags = [
    ...(settings ? settingFlags(settings === true ? () => true : settings, ofCheckpoint) : []),
    ...Object.entries(options).map(([flag, option]) => optionFlag(flag, option)),
    { name: "help", help: "show help" },
    { name: "trace-errors", help: "tell where in the program an error came from" },
  ];
  return {
    name,
    summary,
    words,
    flags: [...new Map(flags.map((flag) => [flag.name, flag])).values()],
  };
}

function optionFlag(name: string, { kind, help }: OptionSpec): CompletedFlag {
  return kind === "bool" ? { name, help } : { name, help, value: { files: true } };
}

// The completion scripts of the three shells, as pure functions.

const dashed = (flags: readonly CompletedFlag[]) => flags.map(({ name }) => `--${name}`).join(" ");
const names = (commands: readonly CompletedCommand[]) => commands.map(({ name }) => name).join(" ");

function bash(commands: readonly CompletedCommand[]): string {
  const train = commands.find(({ name }) => name === "train")!;
  const values = allFlags(commands).flatMap(({ name, value }) => {
    if (!value) return [];
    const { choices, files } = value;
    const words = choices
      ? `compgen ${files ? "-f " : ""}-W '${choices.join(" ")}' -- "$cur"`
      : 'compgen -f -- "$cur"';
    const reply = value.choices || value.files ? `COMPREPLY=($(${words})); return` : "return";
    return [`    --${name}) ${reply} ;;`];
  });
  const cases = commands.map(({ name, words, flags }) =>
    `    ${name}) words='${[...words, dashed(flags)].join(" ")}' ;;`
  );
  return `# bash completion for hpctrain: eval "$(hpctrain completions bash)"
_hpctrain() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} words
  if [[ $cur == = ]]; then cur=; fi
  if [[ $prev == = ]]; then prev=\${COMP_WORDS[COMP_CWORD-2]}; fi
  COMPREPLY=()
  case $prev in
${values.join("\n")}
  esac
  if [[ $COMP_CWORD -eq 1 && $cur != -* ]]; then
    COMPREPLY=($(compgen -W '${names(commands)}' -- "$cur"))
    return
  fi
  case \${COMP_WORDS[1]} in
${cases.join("\n")}
    *) words='${dashed(train.flags)}' ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  if [[ $cur != -* && \${#COMPREPLY[@]} -eq 0 ]]; then COMPREPLY=($(compgen -f -- "$cur")); fi
}
complete -o filenames -F _hpctrain hpctrain`;
}

function zsh(commands: readonly CompletedCommand[]): string {
  const text = (words: string) => words.replaceAll(/[\[\]:\\]/g, "\\$&").replaceAll("'", "'\\''");
  const spec = ({ name, help, value }: CompletedFlag) => {
    const action = value?.choices ? `(${value.choices.join(" ")})` : value?.files ? "_files" : "";
    return `    '*--${name}${value ? "=" : ""}[${text(help)}]${value ? `:${name}:${text(action)}` : ""}'`;
  };
  const cases = commands.map(({ name, words, flags }) => {
    const rest = words.length > 0 ? `'*:argument:(${words.join(" ")})'` : "'*:file:_files'";
    return `  ${name}) specs=(\n${flags.map(spec).join("\n")}\n    ${rest}) ;;`;
  });
  return `#compdef hpctrain
# zsh completion for hpctrain: eval "$(hpctrain completions zsh)"
_hpctrain() {
  local -a specs commands
  local command=$words[2]
  if [[ $CURRENT -eq 2 && $command != -* ]]; then
    commands=(
${commands.map(({ name, summary }) => `      '${name}:${text(summary)}'`).join("\n")}
    )
    _describe command commands
    return
  fi
  if [[ $command == -* ]]; then command=train; else shift words; ((CURRENT--)); fi
  case $command in
${cases.join("\n")}
  esac
  _arguments $specs
}
compdef _hpctrain hpctrain`;
}

function fish(commands: readonly CompletedCommand[]): string {
  const text = (words: string) => `'${words.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const line = (condition: string, { name, help, value }: CompletedFlag) => {
    const takes = value?.choices
      ? ` -x -a ${text(value.choices.join(" "))}`
      : value?.files
      ? " -r"
      : value
      ? " -x"
      : "";
    return `complete -c hpctrain -n ${text(condition)} -l ${name}${takes} -d ${text(help)}`;
  };
  const lines = commands.flatMap(({ name, summary, words, flags }) => {
    const seen = `__fish_seen_subcommand_from ${name}`;
    const condition = name === "train"
      ? `${seen}; or not __fish_seen_subcommand_from ${names(commands)}`
      : seen;
    return [
      `complete -c hpctrain -n __fish_use_subcommand -f -a ${name} -d ${text(summary)}`,
      ...(words.length > 0 ? [`complete -c hpctrain -n ${text(seen)} -f -a ${text(words.join(" "))}`] : []),
      ...flags.map((flag) => line(condition, flag)),
    ];
  });
  return ["# fish completion for hpctrain: hpctrain completions fish | source", ...lines].join("\n");
}

function allFlags(commands: readonly CompletedCommand[]): CompletedFlag[] {
  return [...new Map(commands.flatMap(({ flags }) => flags).map((flag) => [flag.name, flag])).values()];
}
