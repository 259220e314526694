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

/** Words after the script's name come last, so they count most. */
export function overriding({ overrides, words }: Job): string[] {
  if (overrides.length === 0) return [];
  const pairs = overrides.map(([variable, flag]) => `${variable}=${flag}`);
  return [
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
