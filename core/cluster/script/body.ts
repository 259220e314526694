// The parts that the scripts of both schedulers share.
import type { ScriptJob } from "./job.ts";
import { quote, quoteAll, quoteLines } from "../../base/shell.ts";
import { commandWithoutSecrets } from "../../base/secrets.ts";
import { UserError } from "../../base/errors.ts";
import { prefixedOf } from "../../settings/environment.ts";
import type { Resolved } from "../../settings/resolve.ts";
import { JOB_LINE, type JobLine } from "../../ranks/job/scheduler.ts";
import { ALL_SETTINGS } from "../../settings/settings.ts";

/** A login shell knows `module` even where the job inherits nothing from its submitter. */
export function head({ made: { version, command }, site }: ScriptJob, lines: readonly string[]): string[] {
  return [
    site.modules.length > 0 ? "#!/bin/bash -l" : "#!/bin/bash",
    `# Made by hpctrain ${version} with:`,
    `#   ${quoteAll(commandWithoutSecrets(command))}`,
    ...lines.map((line) => `# ${line}`),
  ];
}

/** `set -eu` comes later, because neither modules nor users' files are written for it. */
export function surroundings(
  { site: { modules, env, setup, passed }, inherited }: ScriptJob,
  submit: (names: string) => string,
): string[] {
  const lines = [
    ...(modules.length > 0 ? [`module load ${quoteAll(modules)} || exit 7`] : []),
    ...env.map((pair) => {
      const equals = pair.indexOf("=");
      return `export ${pair.slice(0, equals)}=${quote(pair.slice(equals + 1))}`;
    }),
    ...setup,
    ...inherited.map(([name, value]) => `[[ -n \${${name}:-} ]] || export ${name}=${quote(value)}`),
    ...(passed.length === 0 ? [] : [
      ...wrapped("for name in", passed, "; do"),
      "  if [[ -z ${!name+set} ]]; then",
      '    echo "hpctrain: $name has not come with the job: set it in the shell that submits, and submit so:" \\',
      `      ${quote(submit(passed.join()))} >&2`,
      "    exit 2",
      "  fi",
      "done",
    ]),
  ];
  return lines;
}

export const STRICT = ["", "set -euo pipefail"];

/** V8 reserves this much address space (KiB) when it starts; 33 GiB were enough. */
const RESERVED_KIB = 34 * 2 ** 20;

/** Without it the program ends by a trap signal and a native stack. */
export const ADDRESSES = [
  "",
  "# The program reserves 33 GiB of address space (which is no memory) before it runs.",
  'ulimit -S -v "$(ulimit -H -v)"',
  `if [[ $(ulimit -v) != unlimited ]] && (($(ulimit -v) < ${RESERVED_KIB})); then`,
  '  echo "The address space is limited to $(ulimit -v) KiB (ulimit -v), and hpctrain needs 33 GiB of it to start:" \\',
  '    "ask for a queue without that limit, or raise it where the job is submitted."',
  "  exit 7",
  "fi",
];

/**
 * Without it every rank ends with "exec format error". The names are the kernel's, which Deno's and those of what
 * scripts/build makes are too.
 */
export function architecture({ made: { architecture: own }, program: [file, ...rest] }: ScriptJob): string[] {
  if (rest.length > 0) return []; // run from its sources by a Deno of the node's own
  return [
    "",
    "# Nodes of another architecture than the one that submits need another executable.",
    `hpctrain=${quote(file)}`,
    `if [[ $(uname -m) != ${own} ]]; then`,
    "  hpctrain+=-$(uname -m)",
    '  if ! command -v "$hpctrain" >/dev/null; then',
    `    echo "This node is $(uname -m), and the executable of this job is for ${own}. Put the one for $(uname -m) beside it," \\`,
    `      "as $hpctrain, or ask for nodes that are ${own} (--partition, --constraint)." >&2`,
    "    exit 7",
    "  fi",
    '  echo "This node is $(uname -m): the job runs $hpctrain."',
    "fi",
  ];
}

export const REFUSE = ["", 'refuse() { echo "hpctrain: $*" >&2; exit 2; }'];

/** Words after the script's name come last, so they override the others. */
export function overriding({ overrides, words, useless, gaveWay }: ScriptJob): string[] {
  const given = gaveWay.map(([name, value]) =>
    `if [[ \${${name}:-} == ${quote(value)} ]]; then unset ${name}; fi`
  );
  const lost = given.length > 0
    ? ["", "# Set where this script was made, where flags counted more.", ...given]
    : [];
  if (overrides.length === 0) {
    return [...lost, 'if (($# > 0)); then refuse "This job takes no words after its file, and got: $*."; fi'];
  }
  const pairs = overrides.map(([variable, flag]) => `${variable}=${flag}`);
  return [
    ...lost,
    ...(useless.length === 0 ? [] : [
      ...wrapped("for name in", useless, "; do"),
      `  if [[ -n \${!name:-} ]]; then refuse "$name=\${!name} means nothing to ${words[0]}: unset it."; fi`,
      "done",
    ]),
    "",
    `# What the job's environment and the words after the script's name say counts more than the ${
      words.length > 1 ? "flags below" : "defaults"
    }.`,
    "given=()",
    ...wrapped("for pair in", pairs, "; do"),
    "  variable=${pair%%=*}",
    '  if [[ -n ${!variable:-} ]]; then given+=("--${pair#*=}=${!variable}"); fi',
    "done",
    'set -- "${given[@]}" "$@"',
    'if (($# > 0)); then echo "Changed for this job: $*"; fi',
  ];
}

/** NODES and GPUS take a part of `nodes` and `tasks`. More than the job has needs another job. */
export function partly({ layout }: ScriptJob, submit: { NODES: string; GPUS: string }): string[] {
  const part = (name: "NODES" | "GPUS", has: string, what: string) => [
    `if [[ -n \${${name}:-} ]]; then`,
    `  if [[ ! $${name} =~ ^[1-9][0-9]{0,5}$ ]]; then refuse "${name}=$${name} is no number of ${what}."; fi`,
    `  if ((${name} > ${has})); then`,
    `    refuse "${name}=$${name}, and this job has $${has} ${what}. Submit one that has more: ${
      submit[name]
    }"`,
    "  fi",
    `  if ((${name} < ${has})); then echo "${name}=$${name} of this job's $${has} ${what} are used."; fi`,
    `  ${has}=$${name}`,
    "fi",
  ];
  const noGpus =
    'refuse "GPUS=$GPUS, and this job has none: unset it, or see hpctrain sbatch --gpus-per-node."';
  return [
    ...part("NODES", "nodes", "nodes"),
    ...(layout.gpusPerNode > 0
      ? part("GPUS", "tasks", "GPUs on each node")
      : [`if [[ -n \${GPUS:-} ]]; then ${noGpus}; fi`]),
  ];
}

/** Rank 0 listens on the network and accepts only those who know it. */
export const SECRET = [
  "",
  "# What ranks of this job, and nobody else, know each other by.",
  "HPCTRAIN_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')",
  "export HPCTRAIN_SECRET",
];

/** After a stop by hand the first rank, which is on this node, notes here that nothing requeues the run. */
export const ENDED = [
  "",
  "# A run that is stopped by hand (the file STOP) says so here, and does not come back.",
  "HPCTRAIN_ENDED=$(mktemp)",
  "export HPCTRAIN_ENDED",
];

/** The last lines of a run tell how it goes on: by the line that made its job. */
export function madeBy({ words, jobFlags, layout: { nodes, ranksPerNode } }: ScriptJob): string[] {
  if (words[0] !== "train") return [];
  const job: JobLine = { flags: commandWithoutSecrets(jobFlags), nodes, ranks: ranksPerNode };
  return ["", "# The run says with it how it goes on.", `export ${JOB_LINE}=${quote(JSON.stringify(job))}`];
}

export function command(job: ScriptJob, starter: readonly string[]): string[] {
  const program = job.program.length > 1 ? job.program : [PROGRAM];
  const own = quoteLines([...program, ...job.words, ...(job.overrides.length > 0 ? [ARGS] : [])]);
  return ["code=0", `${starter.join(" \\\n  ")} \\\n  ${own} || code=$?`];
}

const PROGRAM = { shell: '"$hpctrain"' } as const; // by `architecture`
const ARGS = { shell: '"$@"' } as const;

/** Writes `for name in A B C; do` on as many lines as it takes. */
export function wrapped(start: string, words: readonly string[], end: string, width = 100): string[] {
  const full: string[] = [];
  let line = start;
  for (const word of words) {
    if (line.length + word.length + 3 > width) {
      full.push(`${line} \\`);
      line = " ".repeat(start.length);
    }
    line += ` ${word}`;
  }
  return [...full, line + end];
}

const PLAIN_WORD = /^[\w@%+=:,./()[\]*&|!<>~^-]*$/;

/** sbatch removes quotes, and a backslash before any letter. */
export function sbatchLine(name: string, value: string | number | true): string {
  if (value === true) return `#SBATCH --${name}`;
  const text = String(value);
  refuseLines(`--${name}`, text);
  return `#SBATCH --${name}=${PLAIN_WORD.test(text) ? text : `"${text.replace(/["\\]/g, "\\$&")}"`}`;
}

/** The option passes unchanged: "--gres=gpu:2" or "-p short". */
export function sbatchOption(option: string): string {
  refuseLines("--sbatch-arg", option);
  refuseWord("--sbatch-arg", option);
  const equals = option.indexOf("=");
  if (!option.startsWith("--") || equals < 0) return `#SBATCH ${option}`;
  return sbatchLine(option.slice(2, equals), option.slice(equals + 1));
}

/** PBS can't quote, so a value that it would split is refused. */
export function pbsLine(option: string, value: string): string {
  refuseLines(option, value);
  if (PLAIN_WORD.test(value)) return `#PBS ${option} ${value}`;
  throw new UserError(
    "usage",
    `${option} ${
      JSON.stringify(value)
    } can't stand in a #PBS line, which ends at blanks, quotes and #. Give it without them.`,
  );
}

/** The option passes unchanged; PBS splits it at blanks. */
export function pbsOption(option: string): string {
  refuseLines("--qsub-arg", option);
  refuseWord("--qsub-arg", option);
  return `#PBS ${option}`;
}

/** A word that is no option would be the program that srun starts. */
export function srunOption(option: string): string {
  refuseWord("--srun-arg", option);
  return option;
}

function refuseLines(name: string, text: string): void {
  // deno-lint-ignore no-control-regex
  if (!/[\u0000-\u001f\u007f]/.test(text)) return;
  throw new UserError(
    "usage",
    `${name} ${
      JSON.stringify(text)
    }: the scheduler reads it from a comment line of the script, which can't hold a ` +
      "line break or another control character. Remove it.",
  );
}

const WITH_DASHES: Readonly<Record<string, string>> = {
  "--qsub-arg": "'-l software=x'",
  "--srun-arg": "--cpu-bind=cores",
};

function refuseWord(name: string, option: string): void {
  if (/^-{1,2}[A-Za-z]/.test(option)) return;
  throw new UserError(
    "usage",
    `${name} ${
      JSON.stringify(option)
    } is no option: ${name} takes one as it stands on the command line, with its ` +
      `dashes: ${name}=${WITH_DASHES[name] ?? "--nice=100"}.`,
  );
}

// `sbatch --export=ALL,EPOCHS=200 FILE` works by these. They include our own variables of settings that the
// script gives by flags, which would override them.

type Overrides = readonly (readonly [variable: string, flag: string])[];

/** The script itself uses these, for every command. */
export const OF_THE_SIZE = ["NODES", "GPUS"];

const PLAIN_OVERRIDES: Overrides = ALL_SETTINGS.flatMap(({ setting: { plain = [], flag } }) =>
  flag ? plain.filter((name) => !OF_THE_SIZE.includes(name)).map((name) => [name, flag] as const) : []
);

const GENERATE_OVERRIDES: Overrides = [
  ["DATA_TYPE", "data-type"],
  ["TRAIN_SAMPLES", "samples"],
  ["HPCTRAIN_SAMPLES", "samples"],
  ["HPCTRAIN_VAL_SAMPLES", "val-samples"],
  ["HPCTRAIN_SEED", "seed"],
  ["HPCTRAIN_OUT", "out"],
];

export function overridesOf(command: string, { origin }: Resolved): Overrides {
  if (command === "generate-data") return GENERATE_OVERRIDES;
  if (command !== "train") return [];
  const typed = ALL_SETTINGS.flatMap((declared) => {
    const { path, setting: { flag } } = declared;
    return flag && origin(path).kind === "flag" && !/^(cluster|distributed)\./.test(path)
      ? prefixedOf(declared).map((name) => [name, flag] as const)
      : [];
  });
  return [...PLAIN_OVERRIDES, ...typed];
}

export const uselessFor = (command: string): readonly string[] =>
  command !== "generate-data"
    ? []
    : PLAIN_OVERRIDES.map(([name]) => name).filter((name) =>
      !GENERATE_OVERRIDES.some(([used]) => used === name)
    );
