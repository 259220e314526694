// Machines that are not here: trees like Linux's /sys/devices/system, of packages, NUMA domains, cores and threads.
import { type Topology } from "../../../core/base/topology.ts";

export interface Machine {
  readonly packages: number;
  readonly domainsEach: number;
  readonly coresEach: number;
  readonly threads: number;
  readonly gib: number;
  /** Domains of memory alone, as GPUs' is on Grace Hopper. */
  readonly withoutCores?: number;
}

/** Nodes as their makers describe them. */
export const MACHINES = {
  laptop: { packages: 1, domainsEach: 1, coresEach: 4, threads: 2, gib: 16 },
  "two sockets": { packages: 2, domainsEach: 1, coresEach: 24, threads: 1, gib: 96 },
  "LUMI-C": { packages: 2, domainsEach: 4, coresEach: 16, threads: 2, gib: 32 },
  "LUMI-G": { packages: 1, domainsEach: 4, coresEach: 16, threads: 2, gib: 128 },
  "four GH200": { packages: 4, domainsEach: 1, coresEach: 72, threads: 1, gib: 120, withoutCores: 4 },
} satisfies Record<string, Machine>;

/** CPU numbers as Linux gives them: the first threads of all cores, then the second ones. */
export function inMachine<T>(machine: Machine, use: (root: string, cpus: number) => T): T {
  const { packages, domainsEach, coresEach, threads, gib, withoutCores = 0 } = machine;
  const domains = packages * domainsEach, cores = domains * coresEach;
  const root = Deno.makeTempDirSync({ dir: "/dev/shm" }); // a thousand small files
  const folder = (path: string) => Deno.mkdirSync(`${root}/${path}`, { recursive: true });
  const write = (path: string, text: string) => Deno.writeTextFileSync(`${root}/${path}`, `${text}\n`);
  try {
    for (let core = 0; core < cores; core++) {
      const own = Array.from({ length: threads }, (_, thread) => core + thread * cores);
      for (const cpu of own) {
        folder(`cpu/cpu${cpu}/topology`);
        write(`cpu/cpu${cpu}/topology/thread_siblings_list`, own.join(","));
        write(
          `cpu/cpu${cpu}/topology/physical_package_id`,
          String(Math.floor(core / (domainsEach * coresEach))),
        );
        write(`cpu/cpu${cpu}/topology/core_id`, String(core));
      }
    }
    for (let id = 0; id < domains + withoutCores; id++) {
      folder(`node/node${id}`);
      const first = id * coresEach, last = first + coresEach - 1;
      const list = Array.from({ length: threads }, (_, t) => `${first + t * cores}-${last + t * cores}`);
      write(`node/node${id}/cpulist`, id < domains ? list.join(",") : "");
      write(`node/node${id}/meminfo`, `Node ${id} MemTotal:       ${gib * 2 ** 20} kB`);
    }
    return use(root, cores * threads);
  } finally {
    Deno.removeSync(root, { recursive: true });
  }
}

/** Domains of so many cores of one thread, or of the threads given, without a tree. */
export const madeOf = (...domains: readonly (number | readonly (readonly number[])[])[]): Topology => {
  let next = 0;
  return {
    ofMachine: domains.length,
    domains: domains.map((cores, id) => ({
      id,
      bytes: 2 ** 35,
      cores: typeof cores === "number" ? Array.from({ length: cores }, () => [next++]) : cores,
    })),
  };
};
