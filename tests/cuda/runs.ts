// Runs of the program on the CUDA stand-in, many in one process: what they ended with, and what was counted.
import { fromFileUrl, join } from "paths";
import { environment, ROOT } from "../integration/program.ts";
import { runtimeOf, standin, standinEnv, type StandinOptions } from "./standin.ts";

export interface Run {
  readonly args: readonly string[];
  /** Work runs when somebody waits for it. */
  readonly late?: boolean;
  /** This call fails, as CUDA_STANDIN_FAIL has it: "cudaEventRecord:12:719". */
  readonly fail?: string;
}

export interface Counted {
  readonly count: number;
  readonly bytes: number;
}

export interface Ended {
  readonly code: number;
  readonly error: string | null;
  readonly seconds: number;
  /** By "kind:name". */
  readonly counts: Readonly<Record<string, Counted>>;
}

interface Options extends StandinOptions {
  /** Where the program's sources are. */
  readonly sources?: string;
  /** Seconds for all of them. */
  readonly timeout?: number;
}

const PARTS = [
  "core",
  "extensions",
  "ffi",
  "commands",
  "deps",
  "presets",
  "main.ts",
  "mod.ts",
  "deno.json",
  "deno.lock",
];

/** A folder of its own, for sources that are changed. */
export async function copyOfSources(): Promise<string> {
  const sources = Deno.makeTempDirSync({ prefix: "mutants-" });
  const args = ["-r", ...PARTS.map((part) => join(ROOT, part)), sources];
  await new Deno.Command("cp", { args }).output();
  return sources;
}

/** Runs them one after the other in one process, in this folder. */
export async function runAll(folder: string, runs: readonly Run[], options: Options = {}): Promise<Ended[]> {
  const { sources = ROOT, timeout = 900 } = options, built = await standin(options.kind);
  const results = join(folder, `results-${crypto.randomUUID()}.json`);
  const program = fromFileUrl(new URL("program.ts", import.meta.url));
  const env = environment({
    ...standinEnv(built, options),
    CUDA_STANDIN_RUNTIME: runtimeOf(built),
  });
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--quiet", "--allow-all", "--no-check", "--config", join(ROOT, "deno.json")],
      ...[program, sources, results],
    ],
    cwd: folder,
    env,
    clearEnv: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const timer = setTimeout(() => child.kill("SIGKILL"), 1000 * timeout);
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(JSON.stringify(runs)));
  await writer.close();
  const { success, stdout, stderr } = await child.output();
  clearTimeout(timer);
  const ends: Ended[] = readJson(results) ?? [];
  if (success && ends.length === runs.length) return ends;
  const said = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes).slice(-3000)).join("\n");
  throw new Error(`run ${ends.length + 1} of ${runs.length} ended the process:\n${said}`);
}

function readJson(path: string) {
  try {
    return JSON.parse(Deno.readTextFileSync(path));
  } catch {
    return null;
  }
}

/** What the stand-in found wrong. */
export const violations = ({ counts }: Ended): string[] =>
  Object.entries(counts).filter(([name, { count }]) => name.startsWith("VIOLATION:") && count > 0)
    .map(([name, { count }]) => `${count} times ${name}`);

/** All counts of a kind. */
export const total = ({ counts }: Ended, kind: string): number =>
  Object.entries(counts).filter(([name]) => name.startsWith(kind)).reduce(
    (sum, [, { count }]) => sum + count,
    0,
  );
