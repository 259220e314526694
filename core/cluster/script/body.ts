// The parts that scripts of both schedulers share. May import job, quote.
import type { Job } from "./job.ts";
import { quote, quoteAll, quoteLines } from "./quote.ts";

/** A login shell knows `module` even where the job gets nothing of the submitter's environment. */
export function head({ made: { version, command }, site }: Job, lines: readonly string[]): string[] {
  return [
    site.modules.length > 0 ? "#!/bin/bash -l" : "#!/bin/bash",
    `# Made by hpctrain ${version} with:`,
    `#   ${quoteAll(command)}`,
    ...lines.map((line) => `# ${line}`),
  ];
}

/** What the site needs. Not under `set -eu`: neither modules nor people's own files are written for it. */
export function surroundings({ site: { modules, env, setup }, inherited }: Job): string[] {
  const lines = [
    ...(modules.length > 0 ? [`module load ${quoteAll(modules)} || exit 7`] : []),
    ...env.map((pair) => {
      const equals = pair.indexOf("=");
      return `export ${pair.slice(0, equals)}=${quote(pair.slice(equals + 1))}`;
    }),
    ...setup,
    ...inherited.map(([name, value]) => `[[ -n \${${name}:-} ]] || export ${name}=${quote(value)}`),
  ];
  return lines;
}

export const STRICT = ["", "set -euo pipefail"];

/** KiB of address space that the JavaScript engine reserves at its start, before anything of ours runs; 33 GiB were seen to do. */
const RESERVED_KIB = 34 * 2 ** 20;

/** Without it the program would end by a trap signal, with a native stack for all it says. */
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

/** Ends the job at once, with the code of wrong usage. */
export const REFUSE = ["", 'refuse() { echo "hpctrain: $*" >&2; exit 2; }'];

/** Words after the script's name come last, so they count most. */
export function overriding({ overrides, words, useless, gaveWay }: Job): string[] {
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

/** NODES and GPUS take a part of `nodes` and `tasks`. More than the job has is another job, and the sentence says which. */
export function partly({ layout }: Job, submit: { NODES: string; GPUS: string }): string[] {
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

/** Anybody on the network may knock at rank 0; who knows this comes in. */
export const SECRET = [
  "",
  "# What ranks of this job, and nobody else, know each other by.",
  "HPCTRAIN_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')",
  "export HPCTRAIN_SECRET",
];

/** Whoever stops a run by hand does not want it back: the first rank, which is on this node, notes that here. */
export const ENDED = [
  "",
  "# A run that is stopped by hand (the file STOP) says so here, and does not come back.",
  "HPCTRAIN_ENDED=$(mktemp)",
  "export HPCTRAIN_ENDED",
];

/** The starter's words, then the program's, then what was changed for this job. */
export function command(job: Job, starter: readonly string[]): string[] {
  const own = quoteLines([...job.program, ...job.words, ...(job.overrides.length > 0 ? [ARGS] : [])]);
  return ["code=0", `${starter.join(" \\\n  ")} \\\n  ${own} || code=$?`];
}

const ARGS = { shell: '"$@"' } as const;

/** `for name in A B C; do`, on as many lines as it takes. */
export function wrapped(start: string, words: readonly string[], end: string, width = 100): string[] {
  const lines = [start];
  for (const word of words) {
    if (lines.at(-1)!.length + word.length + 3 > width) lines.push(" ".repeat(start.length));
    lines[lines.length - 1] += ` ${word}`;
  }
  return lines.map((line, i) => i < lines.length - 1 ? `${line} \\` : line + end);
}
