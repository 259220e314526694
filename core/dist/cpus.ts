// The cores that this process may use, and how many threads that load data fit there. May import ffi (types), format.
import type { Cores, Spin } from "../../ffi/spin.ts";
import { formatPlural } from "../format.ts";

/** Of the process's own cpuset and its cgroup's quota, not of the machine. */
export const cpusHere = (): number => navigator.hardwareConcurrency;

/**
 * `mentioned`: somebody asked for that number, and is told when it is not to be had. A default takes what training
 * leaves, and half of the cores where training would leave less: it waits for data as data waits for it.
 */
export function workersFor(
  asked: number,
  cpus: number,
  trainingThreads: number,
  mentioned: boolean,
): { workers: number; note: string | null } {
  const fitting = Math.max(cpus - trainingThreads, Math.ceil(cpus / 2));
  if (!mentioned || asked <= cpus) {
    return { workers: Math.min(asked, mentioned ? cpus : fitting), note: null };
  }
  const cpuset = allowedCores();
  const note =
    `Warning: ${asked} threads were asked to load data (--num-workers), but this process may use ` +
    `${formatPlural(cpus, "core")}${cpuset && ` (its cpuset is ${cpuset})`}, so ${cpus} will. ` +
    "Ask the scheduler for more cores: --cpus-per-task in SLURM, ncpus in PBS, --bind-to none with mpirun.";
  return { workers: cpus, note };
}

/** "0-3,8" as Linux writes it; nothing where it tells nobody. */
export function allowedCores(): string {
  try {
    return Deno.readTextFileSync("/proc/self/status").match(/^Cpus_allowed_list:\s*(\S+)/m)?.[1] ?? "";
  } catch {
    return "";
  }
}

const FOUND: Readonly<Record<Cores, string>> = {
  job: "the cores are this job's own",
  cpuset: "the cores are this process's own cpuset",
  quiet: "nobody else computes on these cores",
  busy: "others compute on these cores too",
  "by hand": "as GOMP_SPINCOUNT or OMP_WAIT_POLICY says",
};

/** How threads wait for each other, and why so. */
export const spinSentence = ({ cores, turns }: Spin): string =>
  `threads ${turns === null ? "wait" : cores === "busy" ? "spin briefly" : "spin"} between parallel loops: ${
    FOUND[cores]
  }`;
