// The command line of `sbatch` and `qsub`: options of the job, and the command that it runs.
import { looksLikeFlag, type OptionSpec, splitFlag, takeValue, unknownFlag } from "../../settings/options.ts";
import { SOURCE_FLAGS, takesValue } from "../../settings/flags.ts";
import { findSetting, FLAGS } from "../../settings/settings.ts";
import { UserError } from "../../base/errors.ts";
import { COMMANDS, type SchedulerName } from "./scheduler.ts";

/** Where `takes` is set, flags of settings are checked before the job is submitted. */
const RUNS: Readonly<Record<string, { takes: boolean }>> = {
  train: { takes: true },
  eval: { takes: true },
  pack: { takes: false },
  bench: { takes: false },
  "generate-data": { takes: false },
  doctor: { takes: false },
};

export interface JobOptions {
  readonly command: string;
  readonly takesSettings: boolean;
  readonly words: readonly string[];
  readonly job: readonly string[];
  readonly own: Readonly<Record<string, readonly string[]>>;
}

const OF_THE_JOB = /^(cluster\.|distributed\.(nodes|gpus_per_node)$)/;

/**
 * Here `--scheduler slurm` and `pbs` are the job's, which the command has chosen already; other words are the schedule of the
 * learning rate.
 */
export function withoutScheduler(argv: readonly string[], own: SchedulerName): string[] {
  const end = argv.includes("--") ? argv.indexOf("--") : argv.length;
  for (let i = 0; i < end; i++) {
    const { name, value } = splitFlag(argv[i]);
    if (!argv[i].startsWith("--") || name !== "scheduler") continue;
    const word = value ?? argv[i + 1], wanted = word?.toLowerCase();
    if (wanted !== "slurm" && wanted !== "pbs") continue;
    if (wanted !== own) {
      throw new UserError(
        "usage",
        `--scheduler ${word}: \`hpctrain ${COMMANDS[own]}\` makes no jobs for ${wanted.toUpperCase()}; ` +
          `\`hpctrain ${COMMANDS[wanted]}\` does.`,
      );
    }
    return withoutScheduler(argv.toSpliced(i, value === undefined ? 2 : 1), own);
  }
  return [...argv];
}

/** Values of these options may begin with a dash. */
export const UNTOUCHED = [
  ...Object.values(COMMANDS).map((command) => `${command}-arg`),
  "srun-arg",
  "env",
  "setup",
];

export function readJobOptions(
  argv: readonly string[],
  spec: Readonly<Record<string, OptionSpec>>,
  { usage, short }: { usage: string; short: Readonly<Record<string, string>> },
): JobOptions {
  const words: string[] = [], job: string[] = [];
  const own: Record<string, string[]> = {};
  let command: string | undefined;
  const rest = argv.map((word) => Object.hasOwn(short, word) ? `--${short[word]}` : word);
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === "--") {
      if (command === undefined && Object.hasOwn(RUNS, rest[0] ?? "")) command = rest.shift();
      words.push(...rest.splice(0));
    } else if (!looksLikeFlag(word)) {
      if (command === undefined && words.length === 0) command = known(word);
      else words.push(word);
    } else {
      const { name, value } = splitFlag(word);
      if (Object.hasOwn(spec, name) && word.startsWith("--")) {
        (own[name] ??= []).push(ownValue(name, value, spec[name], UNTOUCHED.includes(name), rest));
      } else readFlag(word, rest, words, job, { free: command !== undefined && !RUNS[command].takes });
    }
  }
  const kind = own.kind?.at(-1);
  if (kind !== undefined && command === undefined) command = known(kind);
  const chosen = command ?? "train";
  if (RUNS[chosen].takes) refuseUnknown(words, spec, usage);
  return RUNS[chosen].takes
    ? { command: chosen, takesSettings: true, words, job, own }
    : { command: chosen, takesSettings: false, ...withoutSources(words, job), own };
}

/**
 * Flags about the job are ours wherever they stand; all others are the command's. The flags of a `free`
 * command are unknown.
 */
function readFlag(
  word: string,
  rest: string[],
  words: string[],
  job: string[],
  { free }: { free: boolean },
): void {
  const { name, value } = splitFlag(word);
  const flag = FLAGS.get(name);
  const path = flag?.declared.path ?? (name === "set" ? settingOf(value ?? rest[0] ?? "") : "");
  const target = OF_THE_JOB.test(path) ? job : words;
  const takes = value === undefined && takesValue(name);
  const given = takes && rest.length > 0 && !looksLikeFlag(rest[0]) ? rest.shift() : value;
  const typed = name === "gpus-per-node" ? /^([A-Za-z][\w.+-]*):(\d+)$/.exec(given ?? "") : null;
  if (typed) { // SLURM writes a100:4
    target.push("--gpu-type", typed[1], "--gpus-per-node", typed[2]);
  } else if (target === words && free) {
    words.push(word, ...(takes && given !== undefined ? [given] : []));
  } else target.push(...(takes && given !== undefined ? [word, given] : [word]));
}

const settingOf = (pair: string): string => findSetting(pair.split("=")[0].trim())?.path ?? "";

function ownValue(
  name: string,
  value: string | undefined,
  { kind, value: called }: OptionSpec,
  raw: boolean,
  rest: string[],
): string {
  if (kind === "text") {
    if (value !== undefined) return value;
    return (raw ? rest.shift() : undefined) ?? takeValue(name, rest, called ?? "a value");
  }
  if (value === undefined) return "true";
  throw new UserError("usage", `--${name} takes no value, but got "${value}".`);
}

function known(command: string): string {
  if (Object.hasOwn(RUNS, command)) return command;
  throw new UserError(
    "usage",
    `"${command}" is nothing that a job can be made for. A job runs ${
      Object.keys(RUNS).join(", ")
    } or, as the first ` +
      "word, sweep; flags alone are train's.",
  );
}

/** Such a command knows neither presets nor files of settings. */
function withoutSources(typed: readonly string[], job: readonly string[]) {
  const words: string[] = [], sources: string[] = [];
  for (let i = 0; i < typed.length; i++) {
    const { name, value } = splitFlag(typed[i]);
    const source = typed[i].startsWith("--") && ["preset", "recipe", "config"].includes(name);
    if (!source) words.push(typed[i]);
    else if (value !== undefined) sources.push(typed[i]);
    else sources.push(typed[i], ...typed.slice(++i, i + 1));
  }
  return { words, job: [...sources, ...job] };
}

function refuseUnknown(
  words: readonly string[],
  spec: Readonly<Record<string, OptionSpec>>,
  usage: string,
): void {
  const names = [...FLAGS.keys(), ...Object.keys(SOURCE_FLAGS), ...Object.keys(spec)];
  const end = words.indexOf("--");
  for (const word of end < 0 ? words : words.slice(0, end)) {
    if (!looksLikeFlag(word) || /\s/.test(word)) continue;
    if (!word.startsWith("--") || !names.includes(splitFlag(word).name)) {
      throw unknownFlag(word, names, usage);
    }
  }
}
