// A real SLURM of two virtual nodes, made by scripts/slurm-testbed, and jobs in it.
import { join } from "paths";
import { mpich } from "../../mpi.ts";
import { environment, finish, type Result, ROOT } from "../program.ts";

/** What a test needs, for its name and for `ignore`: scripts/test unpacks SLURM where a cluster can be made. */
export const NEEDS = "(needs root and SLURM)";
export const MISSING = !Deno.env.get("HPCTRAIN_SLURM") || Deno.uid() !== 0;

const TESTBED = join(ROOT, "scripts/slurm-testbed");

export interface Bed {
  /** Seen by all nodes; removed with the cluster. */
  readonly folder: string;
  /** A command on the login node. */
  login(words: readonly string[], options?: LoginOptions): Promise<Result>;
  /** A command on a node, past SLURM. */
  on(node: string, words: readonly string[], options?: LoginOptions): Promise<Result>;
  /** On the login node; an error if it fails. */
  done(words: readonly string[], options?: LoginOptions): Promise<string>;
  /** Submits a script and gives the job's number. */
  submit(script: string, options: LoginOptions & { args?: readonly string[] }): Promise<number>;
  /** Power loss, and booting it again. */
  power(node: string, state: "off" | "on"): Promise<void>;
  job(id: number): Promise<JobState>;
  /** Until the scheduler says that it is over: its state, and the code and signal that it ended with. */
  end(id: number, seconds?: number): Promise<JobState>;
  stop(): Promise<void>;
}

export interface LoginOptions {
  readonly cwd?: string;
  readonly env?: Record<string, string>;
  readonly timeout?: number;
}

export interface JobState {
  readonly state: string;
  readonly code: number;
  readonly restarts: number;
}

/** Where the cluster's own programs are, on its nodes alone: ./scripts/test takes a site's off PATH, and their folders with them. */
const ITS_PROGRAMS = "/usr/sbin:/usr/bin";

/** Everything that is started there finds MPICH, and computes with one thread. */
function surroundings({ PATH = `${join(mpich().folder, "bin")}:${Deno.env.get("PATH")}`, ...more } = {}) {
  const OMP_NUM_THREADS = "1", HPCTRAIN_SLURM = Deno.env.get("HPCTRAIN_SLURM")!;
  return environment({ OMP_NUM_THREADS, HPCTRAIN_SLURM, ...more, PATH: `${PATH}:${ITS_PROGRAMS}` });
}

export async function startBed(args: readonly string[] = []): Promise<Bed> {
  const folder = await Deno.realPath(await Deno.makeTempDir({ prefix: "bed-" }));
  const dir = join(folder, "bed");
  const testbed = async (
    [command, ...words]: readonly string[],
    { cwd, env, timeout }: LoginOptions = {},
  ) => {
    const child = new Deno.Command(TESTBED, {
      args: [command, dir, ...words],
      cwd: cwd ?? folder,
      env: surroundings(env),
      clearEnv: true,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    return await finish(child, timeout ?? 60);
  };
  const must = async (words: readonly string[], options?: LoginOptions) => {
    const { code, stdout, stderr } = await testbed(words, options);
    if (code !== 0) throw new Error(`${words.join(" ")}: code ${code}\n${stdout}${stderr}`);
    return stdout;
  };
  await must(["start", ...args]);
  const job = async (id: number): Promise<JobState> => {
    const text = await must(["login", "scontrol", "--oneliner", "show", "job", String(id)]);
    const field = (name: string) => new RegExp(`\\b${name}=(\\S+)`).exec(text)?.[1] ?? "";
    return {
      state: field("JobState"),
      code: Number(field("ExitCode").split(":")[0]),
      restarts: Number(field("Restarts")),
    };
  };
  return {
    folder,
    login: (words, options) => testbed(["login", ...words], options),
    on: (node, words, options) => testbed(["on", node, ...words], options),
    done: (words, options) => must(["login", ...words], options),
    async submit(script, { args = [], ...options }) {
      const path = join(options.cwd ?? folder, "job.sh");
      await Deno.writeTextFile(path, script);
      return Number(await must(["login", "sbatch", "--parsable", ...args, path], options));
    },
    async power(node, state) {
      await must(["node", node, state]);
      // Else the controller finds out when the node has been silent for half a minute.
      if (state === "off") {
        await must(["login", "scontrol", "update", `nodename=${node}`, "state=down", "reason=power"]);
      }
    },
    job,
    async end(id, seconds = 180) {
      for (const end = performance.now() + seconds * 1000;;) {
        const now = await job(id);
        if (!/^(PENDING|RUNNING|COMPLETING|CONFIGURING|REQUEUED?)$/.test(now.state)) return now;
        if (performance.now() > end) throw new Error(`job ${id} is still ${now.state} after ${seconds} s`);
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    },
    async stop() {
      try {
        await must(["stop"]);
        await removed(folder);
      } catch (error) {
        console.error(error); // Deno tells nothing of an error behind the last test
        throw error;
      }
    },
  };
}

/** What a node's last processes still write goes, too. */
async function removed(folder: string): Promise<void> {
  for (let tries = 50;; tries--) {
    try {
      return await Deno.remove(folder, { recursive: true });
    } catch (error) {
      if (tries === 0) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}
