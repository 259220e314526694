// Ranks on CPUs where there is no MPI: each started by hand. Test helper.
import { join } from "paths";
import { finish, type Result, start } from "./program.ts";

/** A machine on which no MPI is found, whatever this one has. */
export function withoutMpi(cwd: string): Record<string, string> {
  const folder = join(cwd, "no-mpi");
  Deno.mkdirSync(folder, { recursive: true });
  Deno.writeTextFileSync(join(folder, "ldconfig"), "#!/bin/sh\necho nothing\n", { mode: 0o755 });
  const path = (Deno.env.get("PATH") ?? "").split(":").filter((at) => !hasMpi(at));
  return {
    PATH: [folder, ...path].join(":"),
    HPCTRAIN_CACHE: folder,
    LD_LIBRARY_PATH: "",
    OMP_NUM_THREADS: "1",
  };
}

const hasMpi = (folder: string): boolean =>
  ["mpirun", "mpiexec"].some((name) => {
    try {
      return Deno.statSync(join(folder, name)).isFile;
    } catch {
      return false;
    }
  });

/** A port that was free a moment ago. */
export function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

/** Ranks as somebody types them into shells: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, no launcher. */
export function startByHand(
  cwd: string,
  ranks: number,
  args: readonly string[],
  through: (rank: number) => string[] = () => [],
): Deno.ChildProcess[] {
  const port = freePort(), none = withoutMpi(cwd);
  return Array.from({ length: ranks }, (_, rank) => {
    const place = {
      RANK: `${rank}`,
      WORLD_SIZE: `${ranks}`,
      MASTER_ADDR: "localhost",
      MASTER_PORT: `${port}`,
    };
    return start([...args], { cwd, env: { ...none, ...place }, through: through(rank) });
  });
}

export const trainArgs = (cwd: string, name: string, flags: readonly string[]): string[] => [
  ...["train", ...flags, "--device=cpu", "--log-interval=1", "--no-wandb"],
  ...[`--run-name=${name}`, "--save-dir", cwd],
];

/** All ranks must end well; what rank 0 printed. */
export async function allWell(ranks: readonly Deno.ChildProcess[]): Promise<string> {
  const results = await Promise.all(ranks.map((rank) => finish(rank, 120)));
  const bad = results.findIndex(({ code }: Result) => code !== 0);
  if (bad < 0) return results[0].stdout;
  const { code, stdout, stderr } = results[bad];
  throw new Error(`rank ${bad} ended with code ${code}:\n${stdout}${stderr}`);
}

/** The files in /dev/shm, but for those that tests beside this one leave for a moment: MPI's, the CUDA stand-in's, and folders. */
export const sharedFiles = (): string[] =>
  [...Deno.readDirSync("/dev/shm")].filter(({ isDirectory }) => !isDirectory).map(({ name }) => name)
    .filter((name) => !/^(mpich_|sm_segment\.|vader_segment\.|cuda-stand-in-)/.test(name)).sort();
