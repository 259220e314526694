// How long libgomp's threads spin between parallel loops before they sleep: long on cores that are this process's own,
// short where others compute on them too. Imports nothing: it is settled before libtorch is loaded, which reads it once.

/** Who computes on the cores: nobody else in a job or a cpuset of one's own, and on quiet ones; or it was set by hand. */
export type Cores = "job" | "cpuset" | "quiet" | "busy" | "by hand";

export interface Spin {
  readonly cores: Cores;
  /** Of a loop of one pause instruction, 10 to 50 ns; null where the user's own variables decide. */
  readonly turns: number | null;
}

/**
 * A thread that spins keeps its core from the one it waits for, where a neighbour has the other. Measured on two cores
 * with a GPT of 45 ms a step and a busy neighbour: 93 ms with 1,000 turns, 164 with 10,000, 321 with 30,000 and 1,835 with
 * libgomp's own 300,000, which PyTorch has. Without a neighbour 30,000 turns are 2 to 4% faster than 1,000, and as fast as more.
 */
const LONG = 30_000, SHORT = 1_000;

const JOBS = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"];
const BY_HAND = ["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"];

export interface CoresSeen {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The cores that this process may use and those of the machine, as Linux lists them: "0-3,8". */
  readonly allowed: string;
  readonly online: string;
  /** Threads of others that compute at this moment, one sample each call; NaN where the system does not tell. */
  readonly others: () => number;
}

export function spinFor({ env, allowed, online, others }: CoresSeen): Spin {
  if (BY_HAND.some((name) => env[name])) return { cores: "by hand", turns: null };
  if (JOBS.some((name) => env[name])) return { cores: "job", turns: LONG };
  if (allowed !== "" && online !== "" && allowed !== online) return { cores: "cpuset", turns: LONG };
  return mostlyAlone(others) ? { cores: "quiet", turns: LONG } : { cores: "busy", turns: SHORT };
}

const SAMPLES = 5;

/** A thread may wake for a moment on any machine: most of the samples decide. */
function mostlyAlone(others: () => number): boolean {
  let alone = 0;
  for (let i = 0; i < SAMPLES; i++) if (others() < 1) alone++;
  return 2 * alone > SAMPLES;
}

let settled: Spin | undefined;

/** Decides, once, and tells libgomp, which must not be loaded yet. Takes some 10 ms where the cores have to be watched. */
export function settleSpin(): Spin {
  if (settled) return settled;
  settled = spinFor({
    env: Deno.env.toObject(),
    allowed: /^Cpus_allowed_list:\s*(\S+)/m.exec(textOf("/proc/self/status"))?.[1] ?? "",
    online: textOf("/sys/devices/system/cpu/online").trim(),
    others: othersNow,
  });
  if (settled.turns !== null) Deno.env.set("GOMP_SPINCOUNT", String(settled.turns));
  return settled;
}

const PAUSE_MS = 1.5;
const never = new Int32Array(new SharedArrayBuffer(4));

function othersNow(): number {
  Atomics.wait(never, 0, 0, PAUSE_MS);
  const running = /^\S+ \S+ \S+ (\d+)\//.exec(textOf("/proc/loadavg"))?.[1];
  return running === undefined ? NaN : Number(running) - ownRunning();
}

function ownRunning(): number {
  let own = 0;
  try {
    for (const { name } of Deno.readDirSync("/proc/self/task")) {
      if (/\) R /.test(textOf(`/proc/self/task/${name}/stat`))) own++;
    }
  } catch {
    return 1; // this thread
  }
  return own;
}

function textOf(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return ""; // a sandbox hides it, or the thread is gone
  }
}
