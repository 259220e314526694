// Where a run takes place: machine, program, commit, SLURM's job. May import git.ts, core/version.ts.
import { VERSION } from "../../version.ts";
import { gitFacts } from "./git.ts";
import type { EnvironmentRecord } from "./records.ts";

export interface EnvironmentOf {
  readonly argv: readonly string[];
  /** Unix seconds at which the process was started. */
  readonly began: number;
  readonly gpus: number;
  readonly env: Readonly<Record<string, string | undefined>>;
}

export function environmentOf({ argv, began, gpus, env }: EnvironmentOf): Omit<EnvironmentRecord, "kind"> {
  const git = gitFacts(".");
  return {
    os: `Linux-${Deno.osRelease()}-${Deno.build.arch}`,
    python: `none: hpctrain ${VERSION} (Deno ${Deno.version.deno})`,
    startedAt: began,
    args: withoutSecrets(argv),
    program: "hpctrain",
    git: git ? { remote: git.remote, commit: git.commit } : undefined,
    root: Deno.cwd(),
    host: Deno.hostname(),
    user: env.USER ?? env.LOGNAME,
    executable: Deno.execPath(),
    ...processors(),
    gpus: gpus || undefined,
    memoryBytes: Deno.systemMemoryInfo().total,
    slurm: slurmFacts(env),
  };
}

/** A word that looks like a key or a password is nobody's business. */
function withoutSecrets(argv: readonly string[]): string[] {
  return argv.map((word) => word.replace(/^(.*(?:key|token|password|secret)[\w.-]*=).+/i, "$1***"));
}

/** As W&B has them: SLURM_JOB_ID is "job_id". */
function slurmFacts(env: EnvironmentOf["env"]): Record<string, string> | undefined {
  const facts = Object.entries(env)
    .filter(([name, value]) => name.startsWith("SLURM_") && value && !/TOKEN|KEY|SECRET|JWT/.test(name))
    .map(([name, value]) => [name.slice("SLURM_".length).toLowerCase(), value!.slice(0, 1000)] as const);
  return facts.length > 0 ? Object.fromEntries(facts.sort()) : undefined;
}

function processors(): { cores?: number; threads: number } {
  const threads = navigator.hardwareConcurrency;
  try {
    const found = Deno.readTextFileSync("/proc/cpuinfo").split("\n\n").map((part) =>
      `${/physical id\s*: (\d+)/.exec(part)?.[1]}/${/core id\s*: (\d+)/.exec(part)?.[1]}`
    );
    const cores = new Set(found.filter((core) => !core.includes("undefined"))).size;
    return { cores: cores || undefined, threads };
  } catch {
    return { threads };
  }
}
