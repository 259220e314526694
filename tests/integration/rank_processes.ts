// The processes of a job of several ranks, seen from outside: who is there, and what it did when it ended. Test helper.
import { join } from "paths";
import type { MpiUnderTest } from "../mpi.ts";
import { finish, type Options, type Result, start, until } from "./program.ts";

export interface Job {
  readonly child: Deno.ChildProcess;
  /** Sends a signal to the rank of this number. */
  kill(rank: number, signal: Deno.Signal): void;
  pidOf(rank: number): number | undefined;
  /** Waits for something that happens while it runs. */
  until(what: string, condition: () => boolean): Promise<void>;
  /** How it ended, and the seconds since `since`; an error if any of its processes is left. */
  end(since: number): Promise<Result & { seconds: number }>;
}

export interface JobOptions extends Options {
  readonly cwd: string;
  readonly mpi: MpiUnderTest;
  readonly ranks: number;
  /** A program in between: ["sh", "-c", script]. */
  readonly wrapped?: readonly string[];
  /** Unless this is false, Open MPI's launcher leaves ranks alone when another one has failed, as srun does. */
  readonly lenient?: boolean;
}

const LENIENT = ["--runtime-options", "recoverable"];

/** Trains a run of the name "r" in the folder `cwd`, by which its processes are found. */
export function startJob(flags: readonly string[], options: JobOptions): Job {
  const { cwd, mpi, ranks, wrapped = [], lenient = true, env } = options;
  const path = `${join(mpi.folder, "bin")}:${Deno.env.get("PATH") ?? ""}`;
  const args = ["train", ...flags, "--device=cpu", "--log-interval=1", "--run-name=r", "--save-dir", cwd];
  // In a folder of all, Open MPI finds what a job that was killed has left, once process numbers come again.
  const child = start(args, {
    cwd,
    env: { OMP_NUM_THREADS: "1", PMIX_MCA_gds: "hash", PATH: path, TMPDIR: cwd, ...env },
    through: [...mpi.launcher, ...lenient ? LENIENT : [], "-n", String(ranks), ...wrapped],
  });
  let ended = false;
  const result = finish(child, options.timeout ?? 240).finally(() => ended = true);
  const known = new Map<number, number>();
  const pidOf = (rank: number) => {
    const pid = known.get(rank) ?? processes(cwd).find((process) => process.rank === rank)?.pid;
    if (pid === undefined || !belongsTo(pid, cwd)) return undefined;
    known.set(rank, pid);
    return pid;
  };
  return {
    child,
    kill(rank, signal) {
      const pid = pidOf(rank);
      if (pid === undefined) throw new Error(`there is no rank ${rank}`);
      Deno.kill(pid, signal);
    },
    pidOf,
    async until(what, condition) {
      await until(what, () => ended || condition());
      if (!ended) return;
      const { stdout, stderr } = await result;
      throw new Error(`the job has ended before ${what}:\n${stdout}${stderr}`);
    },
    async end(since) {
      const found = await result;
      await until("no process of the job is left", () => processes(cwd).length === 0, 60);
      return { ...found, seconds: (performance.now() - since) / 1000 };
    },
  };
}

/** Those that have this folder on their command line, with their rank where they are one. */
function processes(folder: string): { pid: number; rank: number | null }[] {
  const own = [...Deno.readDirSync("/proc")].map(({ name }) => Number(name)).filter(Number.isInteger);
  return own.filter((pid) => belongsTo(pid, folder)).map((pid) => {
    const rank = /(?:^|\0)(?:OMPI_COMM_WORLD_RANK|PMI_RANK)=(\d+)/.exec(read(`/proc/${pid}/environ`))?.[1];
    return { pid, rank: rank === undefined ? null : Number(rank) };
  });
}

const belongsTo = (pid: number, folder: string) => read(`/proc/${pid}/cmdline`).includes(folder);

function read(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return ""; // it has ended
  }
}
