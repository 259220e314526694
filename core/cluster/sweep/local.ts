// Runs a sweep on this machine, some runs at a time, each a process with its own output file.
import { join } from "../../../deps/path.ts";
import { onSignal } from "../../../ffi/signals.ts";
import { EXIT } from "../../base/errors.ts";
import { formatDuration } from "../../base/format.ts";

interface LocalRun {
  readonly run: string;
  readonly command: readonly string[];
  /** Its values. */
  readonly about?: string;
  /** From 1. */
  readonly number: number;
  readonly of: number;
  /** It says what became of the run, where the exit code alone does not tell. */
  readonly ended?: (code: number) => string | null;
}

interface LocalOptions {
  readonly atOnce: number;
  readonly folder: string;
  readonly say: (line: string) => void;
  readonly started?: (pid: number) => void;
}

/**
 * `next` gives a run at a time, and null when there is none left or the sweep is stopping. Returns the first code that is not 0, or 75
 * after a stop. A failed run does not stop the others.
 */
export async function runLocally(
  next: (stopping: () => boolean) => Promise<LocalRun | null> | LocalRun | null,
  { atOnce, folder, say, started }: LocalOptions,
): Promise<number> {
  const children = new Set<Deno.ChildProcess>();
  let stopping = false, code: number = EXIT.done;
  const stop = (reason: string, signal: Deno.Signal) => {
    if (!stopping) say(`${reason}: no further run is begun, and those under way stop after a save.`);
    stopping = true;
    for (const child of children) end(child, signal);
  };
  // The listeners stay until the process is gone: a scheduler's next signal must not change its code.
  for (const signal of ["SIGTERM", "SIGUSR1", "SIGUSR2"] as const) {
    onSignal(signal, () => stop(signal, signal));
  }
  // A terminal sends Ctrl-C to the runs as well, and the second one ends them: the first must not come twice.
  onSignal("SIGINT", () => stop("Ctrl-C", stopping ? "SIGINT" : "SIGTERM"));
  const work = async () => {
    while (!stopping) {
      const run = await next(() => stopping);
      if (run === null || stopping) return;
      const ended = await one(run, { folder, say, started, children });
      if (code === EXIT.done) code = ended;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return stopping ? EXIT.stopped : code;
}

interface Turn extends Pick<LocalOptions, "folder" | "say" | "started"> {
  readonly children: Set<Deno.ChildProcess>;
}

async function one(
  { run, about, command, number, of, ended }: LocalRun,
  { folder, say, started, children }: Turn,
): Promise<number> {
  const path = join(folder, `${run}.out`);
  const began = performance.now();
  say(`[${number}/${of}] ${run} begins${about ? ` with ${about}` : ""}; its output goes to ${path}`);
  const file = await Deno.open(path, { write: true, create: true, append: true });
  try {
    const [program, ...args] = command;
    const child = new Deno.Command(program, { args, stdin: "null", stdout: "piped", stderr: "piped" })
      .spawn();
    children.add(child);
    started?.(child.pid);
    await Promise.all([copy(child.stdout, file), copy(child.stderr, file)]);
    const { code } = await child.status;
    children.delete(child);
    const took = formatDuration((performance.now() - began) / 1000);
    const became = ended?.(code) ??
      (code === EXIT.done ? "is done" : code === EXIT.stopped ? "has stopped" : `failed with code ${code}`);
    say(`[${number}/${of}] ${run} ${became} after ${took}`);
    return code;
  } finally {
    file.close();
  }
}

async function copy(from: ReadableStream<Uint8Array>, to: Deno.FsFile): Promise<void> {
  for await (const chunk of from) {
    for (let done = 0; done < chunk.length;) done += to.writeSync(chunk.subarray(done));
  }
}

function end(child: Deno.ChildProcess, signal: Deno.Signal): void {
  try {
    child.kill(signal);
  } catch {
    // it has ended by itself
  }
}
