// `hpctrain launch` from outside, its ranks within reach, and what is left of it. Test helper.
import { join } from "paths";
import type { MpiUnderTest } from "../mpi.ts";
import { finish, type Result, start, until } from "./program.ts";

export interface Launched {
  readonly child: Deno.ChildProcess;
  pid(rank: number): number;
  readonly result: Promise<Result>;
}

/** Everything that it starts has this folder in its environment, so that it is found wherever it hangs. */
export function launch(
  cwd: string,
  mpi: MpiUnderTest | null,
  args: string[],
  more: Record<string, string> = {},
): Launched {
  const path = `${mpi ? `${join(mpi.folder, "bin")}:` : ""}${Deno.env.get("PATH") ?? ""}`;
  const child = start(["launch", ...args], { cwd, env: { PATH: path, TMPDIR: cwd, ...more } });
  const folder = () =>
    [...Deno.readDirSync(cwd)].find(({ name }) => name.startsWith("hpctrain-launch-"))!.name;
  return {
    child,
    pid: (rank) => Number(Deno.readTextFileSync(join(cwd, folder(), String(rank), "pid"))),
    result: finish(child, 60),
  };
}

/** Until the run of this name has got this far. */
export const stepped = (cwd: string, name: string, step: number): Promise<void> =>
  until(`step ${step}`, () => {
    try {
      return Deno.readTextFileSync(join(cwd, "logs", name, "events.jsonl")).includes(
        `"kind":"step","step":${step},`,
      );
    } catch {
      return false; // no run yet
    }
  });

/** Processes that were started in a test's folder, and have not ended. */
export function processesOf(cwd: string): string[] {
  return [...Deno.readDirSync("/proc")].filter(({ name }) => /^\d+$/.test(name) && Number(name) !== Deno.pid)
    .flatMap(({ name }) => {
      try {
        const environment = Deno.readTextFileSync(`/proc/${name}/environ`);
        return environment.includes(`TMPDIR=${cwd}\0`)
          ? [`${name} ${Deno.readTextFileSync(`/proc/${name}/cmdline`).replaceAll("\0", " ").slice(0, 200)}`]
          : [];
      } catch {
        return []; // gone, or nobody's any more
      }
    });
}
