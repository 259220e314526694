// The program from outside: the executable that HPCTRAIN_EXE names, else the sources.
import { fromFileUrl, join, resolve } from "paths";

/** The executable under test, or null: then the sources are run. */
export const EXE = Deno.env.get("HPCTRAIN_EXE") ? resolve(Deno.env.get("HPCTRAIN_EXE")!) : null;
export const ROOT = fromFileUrl(new URL("../../", import.meta.url));
export const COMMAND = EXE
  ? [EXE]
  : [Deno.execPath(), "run", "--quiet", "--allow-all", "--no-check", join(ROOT, "main.ts")];

export interface Result {
  code: number;
  stdout: string;
  stderr: string;
}

export interface Options {
  cwd?: string;
  env?: Record<string, string>;
  /** Seconds after which the program is killed and the test fails. */
  timeout?: number;
  /** A program that runs the one under test: ["unshare", "-n"]. */
  through?: string[];
}

const { HOME = "/", DENO_DIR, XDG_CACHE_HOME } = Deno.env.toObject();
// Where the sources find their packages, whatever HOME a test gives.
const PACKAGES = DENO_DIR ?? join(XDG_CACHE_HOME ?? join(HOME, ".cache"), "deno");

const STEERING = /^(HPCTRAIN_|WANDB_|SLURM_|PMI_|PALS_|OMPI_|PBS_|MASTER_|(LOCAL_)?RANK$|WORLD_SIZE$)/;

/** This process's environment without what would steer a run, but for the libtorch to use. */
export function environment(more: Record<string, string> = {}): Record<string, string> {
  const kept = Object.entries(Deno.env.toObject())
    .filter(([name]) => name === "HPCTRAIN_LIBTORCH" || !STEERING.test(name));
  return { ...Object.fromEntries(kept), DENO_DIR: PACKAGES, NO_COLOR: "1", ...more };
}

/** A machine on which no libtorch can be found: an empty home and no programs. */
export function bareMachine(home: string): Record<string, string> {
  const none = { HPCTRAIN_LIBTORCH: "", LD_LIBRARY_PATH: "", VIRTUAL_ENV: "", CONDA_PREFIX: "" };
  return { ...none, HOME: home, PATH: home, XDG_CACHE_HOME: home, XDG_CONFIG_HOME: home };
}

export function start(args: string[], { cwd, env, through = [] }: Options = {}): Deno.ChildProcess {
  const [program, ...rest] = [...through, ...COMMAND, ...args];
  return new Deno.Command(program, {
    args: rest,
    cwd,
    env: environment(env),
    clearEnv: true,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

export async function finish(child: Deno.ChildProcess, timeout = 300): Promise<Result> {
  let overdue = false;
  const timer = setTimeout(() => {
    overdue = true;
    child.kill("SIGKILL");
  }, timeout * 1000);
  const { code, stdout, stderr } = await child.output();
  clearTimeout(timer);
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  const result = { code, stdout: text(stdout), stderr: text(stderr) };
  if (overdue) throw new Error(`not done after ${timeout} s:\n${result.stdout}${result.stderr}`);
  return result;
}

export const run = (args: string[], options: Options = {}): Promise<Result> =>
  finish(start(args, options), options.timeout);

/** A run that must succeed. */
export async function succeed(args: string[], options?: Options): Promise<Result> {
  const result = await run(args, options);
  if (result.code !== 0) throw new Error(`exit code ${result.code}:\n${result.stdout}${result.stderr}`);
  return result;
}

/** The smallest run there is, unharmed by busy neighbours; later flags override. */
export const TINY = [
  ...["--train-samples=64", "--val-samples=16", "--batch-size=16", "--epochs=1"],
  ...["--device=cpu", "--threads=1"],
];

/** Every file below a folder, sorted. */
export function filesIn(folder: string): string[] {
  return [...Deno.readDirSync(folder)].flatMap((entry) =>
    entry.isDirectory ? filesIn(join(folder, entry.name)).map((f) => join(entry.name, f)) : [entry.name]
  ).sort();
}

type Event = Record<string, unknown> & { kind: string };

/** What was read of files that only grow. */
const readBefore = new Map<string, { text: string; events: Event[] }>();

/** The events of a run; none while there is no file yet. Whoever waits asks often: only what is new is parsed. */
export function eventsOf(folder: string, name: string): Event[] {
  const path = join(folder, "logs", name, "events.jsonl");
  try {
    const found = Deno.readTextFileSync(path), text = found.slice(0, found.lastIndexOf("\n") + 1);
    const before = readBefore.get(path), known = before && text.startsWith(before.text) ? before : null;
    const lines = text.slice(known?.text.length ?? 0).split("\n").slice(0, -1);
    const events = [...known?.events ?? [], ...lines.map((line) => JSON.parse(line))];
    readBefore.set(path, { text, events });
    return [...events];
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** The last events of a run, without what is measured by the clock and may be written between any two others. */
export function lastEventsOf(folder: string, name: string, count: number): Event[] {
  return eventsOf(folder, name).filter(({ kind }) => kind !== "system" && kind !== "times").slice(-count);
}

/** Looks each 10 ms; a look that takes long comes seldom, at least each 0.1 s. */
export async function until(what: string, condition: () => boolean, seconds = 120): Promise<void> {
  for (const end = performance.now() + seconds * 1000;;) {
    const began = performance.now();
    if (condition()) return;
    const now = performance.now();
    if (now > end) throw new Error(`not within ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, Math.min(100, Math.max(10, 9 * (now - began)))));
  }
}

/** Runs a body with a folder of its own. */
export async function inTemp(body: (folder: string) => void | Promise<void>): Promise<void> {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  try {
    await body(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Whether small disks can be mounted. */
export const ROOT_USER = Deno.uid() === 0;

/** A disk of its own, of this many megabytes. */
export async function onDisk(megabytes: number, body: (disk: string) => Promise<void>): Promise<void> {
  await inTemp(async (cwd) => {
    const disk = join(cwd, "disk");
    Deno.mkdirSync(disk);
    const mount = ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", disk];
    const { success, stderr } = await new Deno.Command("mount", { args: mount }).output();
    if (!success) throw new Error(new TextDecoder().decode(stderr));
    try {
      await body(disk);
    } finally {
      await new Deno.Command("umount", { args: ["--lazy", disk] }).output();
    }
  });
}
