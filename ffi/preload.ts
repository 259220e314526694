// Opens libtorch in a system thread while the rest of the program loads. No other code may call Deno.dlopen meanwhile: it would
// wait for the loader.
import type { Libtorch } from "./libraries/find.ts";

type Cores = "job" | "cpuset" | "quiet" | "busy" | "by hand";

export interface Spin {
  readonly cores: Cores;
  /**
   * Turns of a loop of one pause instruction, 10 to 50 ns each; null where the user's own variables decide.
   */
  readonly turns: number | null;
}

/**
 * A thread that spins keeps its core from the one it waits for, where a neighbour has the other. Measured on
 * two cores with a GPT of 45 ms a step and a busy neighbour: 93 ms with 1,000 turns, 164 with 10,000, 321
 * with 30,000 and 1,835 with libgomp's own 300,000, which PyTorch has. Without a neighbour 30,000 turns are 2
 * to 4% faster than 1,000, and as fast as more.
 */
const LONG = 30_000, SHORT = 1_000;

const JOBS = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"];
const BY_HAND = ["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"];

export interface CoresSeen {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The cores that this process may use and those of the machine, as Linux lists them: "0-3,8". */
  readonly allowed: string;
  readonly online: string;
  /**
   * Other processes' threads that compute at this moment, one sample each call; NaN where the system has no
   * count.
   */
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
  let alone = 0, beside = 0;
  while (2 * Math.max(alone, beside) < SAMPLES) others() < 1 ? alone++ : beside++;
  return alone > beside;
}

let settled: Spin | undefined;

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

const FOUND: Readonly<Record<Cores, string>> = {
  job: "the cores are this job's own",
  cpuset: "the cores are this process's own cpuset",
  quiet: "nobody else computes on these cores",
  busy: "others compute on these cores too",
  "by hand": "as GOMP_SPINCOUNT or OMP_WAIT_POLICY says",
};

export const spinSentence = ({ cores, turns }: Spin): string =>
  `threads ${turns === null ? "wait" : cores === "busy" ? "spin briefly" : "spin"} between parallel loops: ${
    FOUND[cores]
  }`;

const RTLD_LAZY = 1, RTLD_GLOBAL = 0x100;

/**
 * Deno opens libraries for itself alone; plug-ins (MKL's kernels in conda's libtorch, the components of an
 * older Open MPI) need the symbols of the library they belong to. Opened this way first, they find them. The
 * call after reports a failure, with the loader's words.
 */
export function preload(path: string): void {
  const loader = Deno.dlopen("libdl.so.2", {
    dlopen: { parameters: ["buffer", "i32"], result: "pointer" },
  });
  loader.symbols.dlopen(new TextEncoder().encode(path + "\0"), RTLD_LAZY | RTLD_GLOBAL);
  loader.close(); // what it opened stays
}

export const mainOf = ({ dir }: Libtorch): string => `${dir}/libtorch_cpu.so`;

/** Does most of the opening beside this thread's work; openLibtorch reports the result. */
export async function loadBeside(lib: Libtorch): Promise<void> {
  settleSpin();
  await preloadBeside(mainOf(lib));
}

/**
 * libtorch's own start takes a quarter of a second, in a thread of the system's. The call after reports a
 * failure here too.
 */
async function preloadBeside(path: string): Promise<void> {
  const loader = Deno.dlopen("libdl.so.2", {
    dlopen: { parameters: ["pointer", "i32"], result: "pointer", nonblocking: true },
  });
  const libc = Deno.dlopen("libc.so.6", {
    strdup: { parameters: ["buffer"], result: "pointer" },
    free: { parameters: ["pointer"], result: "void" },
  });
  // JavaScript's own memory may be moved or collected while the call is under way.
  const name = libc.symbols.strdup(new TextEncoder().encode(path + "\0"));
  try {
    await loader.symbols.dlopen(name, RTLD_LAZY | RTLD_GLOBAL);
  } finally {
    libc.symbols.free(name);
    libc.close();
    loader.close();
  }
}
