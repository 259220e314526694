// A real control group of memory below this process's own, where the machine lets this user make one. Test helper.

/** Version 1's folder of this process; null elsewhere. */
function ownFolder(): string | null {
  const own = /^\d+:(?:\S+,)?memory:(.*)$/m.exec(Deno.readTextFileSync("/proc/self/cgroup"))?.[1];
  const mount = Deno.readTextFileSync("/proc/self/mountinfo").split("\n")
    .find((line) => / - cgroup \S+ (?:\S+,)?memory(?:,|$)/.test(line))?.split(" ")[4];
  return own === undefined || mount === undefined ? null : mount + own;
}

function make(name: string): string | null {
  const own = ownFolder();
  if (own === null) return null;
  try {
    Deno.mkdirSync(`${own}/${name}`);
    return `${own}/${name}`;
  } catch {
    return null;
  }
}

const probe = make(`hpctrain-probe-${Deno.pid}`);
if (probe !== null) Deno.removeSync(probe);

export const HAS_GROUPS = probe !== null;
export const NEEDS_GROUPS = HAS_GROUPS ? "" : " (needs root, and control groups of version 1)";

export interface Group {
  /** Starts a program in it. */
  readonly through: string[];
  /** Bytes that it may have. */
  limit(bytes: number): void;
  /** Bytes that its processes have, without files' cache. */
  used(): number;
}

/** The group is gone when the body has come to its end, and with it what is left in it. */
export async function inGroup(bytes: number, body: (group: Group) => Promise<void>): Promise<void> {
  const folder = make(`hpctrain-test-${Deno.pid}-${Date.now()}`)!;
  const limit = (bytes: number) => {
    try {
      Deno.writeTextFileSync(`${folder}/memory.limit_in_bytes`, String(bytes));
    } catch {
      // They have more than that just now.
    }
  };
  try {
    limit(bytes);
    await body({
      through: ["sh", "-c", `echo $$ >${folder}/cgroup.procs && exec "$0" "$@"`],
      limit,
      used() {
        const stat = Deno.readTextFileSync(`${folder}/memory.stat`);
        const cache = [...stat.matchAll(/^total_(?:in)?active_file (\d+)$/gm)].reduce(
          (sum, [, bytes]) => sum + Number(bytes),
          0,
        );
        return Number(Deno.readTextFileSync(`${folder}/memory.usage_in_bytes`)) - cache;
      },
    });
  } finally {
    for (let tries = 0; tries < 50; tries++) {
      const left = Deno.readTextFileSync(`${folder}/cgroup.procs`).split("\n").filter(Boolean);
      for (const pid of left) Deno.kill(Number(pid), "SIGKILL");
      try {
        Deno.removeSync(folder);
        break;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 100)); // they are about to end
      }
    }
  }
}
