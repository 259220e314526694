// Runs of the whole program: many in one process, which opens libtorch and the device once, or one in its own.
import { join } from "paths";
import type { Libtorch } from "../../ffi/libraries/find.ts";
import { linesOf } from "../contestant.ts";

const root = new URL("../..", import.meta.url).pathname;
export const SOURCES = ["run", "--allow-all", "--no-check", "--quiet", "--cached-only"];

export interface Ended {
  readonly code: number;
  /** Standard output, and errors where they are not apart. */
  readonly out: string;
  readonly err: string;
}

export interface Program {
  /** Its runs' files are in it. */
  readonly folder: string;
  /** In the one process, in this folder of `folder`. */
  again(folder: string, args: readonly string[]): Promise<Ended>;
  /** In a process of its own. */
  once(folder: string, args: readonly string[], env?: Record<string, string>): Promise<Ended>;
  /** Ends the one process, which gives the device's memory back; the next run starts another. */
  rest(): Promise<void>;
}

export function openProgram(folder: string, { dir }: Libtorch): Program {
  let process: OneProcess | null = null;
  const env = { HPCTRAIN_LIBTORCH: dir };
  const inFolder = (name: string) => {
    const cwd = join(folder, name);
    Deno.mkdirSync(cwd, { recursive: true });
    return cwd;
  };
  const rest = async () => {
    const ending = process;
    process = null;
    await ending?.end();
  };
  return {
    folder,
    rest,
    async again(name, args) {
      process ??= startOne(env);
      const ended = await process.run({ cwd: inFolder(name), args });
      if (ended.code !== 0) await rest(); // the device may have failed for good
      return ended;
    },
    /** The executable where there is one, else its sources. */
    async once(name, args, more = {}) {
      const exe = Deno.env.get("HPCTRAIN_EXE");
      const { code, stdout, stderr } = await new Deno.Command(exe ?? Deno.execPath(), {
        args: [...(exe ? [] : [...SOURCES, join(root, "main.ts")]), ...args],
        cwd: inFolder(name),
        env: { ...env, ...more },
        stdin: "null",
      }).output();
      const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
      return { code, out: text(stdout), err: text(stderr) };
    },
  };
}

interface OneProcess {
  run(request: { cwd: string; args: readonly string[] }): Promise<Ended>;
  end(): Promise<void>;
}

/** A line of its output that begins so ends a run; its exit code follows. */
export const END_OF_RUN = "end of run ";

function startOne(env: Record<string, string>): OneProcess {
  const child = new Deno.Command(Deno.execPath(), {
    args: [...SOURCES, join(root, "bench/gpu_check/runs_worker.ts")],
    // cuBLAS reads it once, and some runs of this process are deterministic.
    env: { ...env, CUBLAS_WORKSPACE_CONFIG: ":4096:8" },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter(), lines = linesOf(child.stdout);
  let err = "";
  const complaints = (async () => {
    for await (const line of linesOf(child.stderr)) err += line + "\n";
  })();
  return {
    async run(request) {
      err = "";
      await writer.write(new TextEncoder().encode(JSON.stringify(request) + "\n"));
      const said: string[] = [];
      for (let next = await lines.next(); !next.done; next = await lines.next()) {
        const at = next.value.indexOf(END_OF_RUN);
        if (at >= 0) {
          return { code: Number(next.value.slice(at + END_OF_RUN.length)), out: said.join("\n"), err };
        }
        said.push(next.value);
      }
      const { code, signal } = await child.status;
      await complaints;
      return {
        code: code || 70,
        out: said.join("\n"),
        err: `${err}\nthe process ended${signal ? ` by ${signal}` : ""}`,
      };
    },
    async end() {
      await writer.close().catch(() => {}); // it may have ended
      await child.status;
    },
  };
}

/** One number of each event of a kind, in order. */
export function fromEvents(p: Program, folder: string, run: string, kind: string, field: string): number[] {
  return Deno.readTextFileSync(join(p.folder, folder, "logs", run, "events.jsonl")).trim().split("\n")
    .map((line) => JSON.parse(line)).filter((e) => e.kind === kind).map((e) => e[field]);
}

/** The last line that it said, for people. */
export const failed = ({ code, err, out }: Ended) => ({
  ok: false,
  figure: `exit code ${code}: ${(err.trim() || out.trim()).split("\n").at(-1)?.slice(0, 160) ?? ""}`,
});
