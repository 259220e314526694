// A Python file that gives the samples: a Python process for each thread that reads data. Requests and answers go through
// pipes with names, and rows through a file in shared memory. All of it is without a name once both sides have it open.
import { makePipe, pipeWaiter } from "../../../ffi/libc.ts";
import { tensor } from "../../../ffi/make.ts";
import { join } from "../../../deps/path.ts";
import { UserError } from "../../base/errors.ts";
import { clean } from "../../base/terminal.ts";
import { pathExists } from "../../base/files.ts";
import type { UserFile } from "./file.ts";

export async function openPythonFile(path: string): Promise<UserFile> {
  const hash = await hashOfPython(path);
  return { path, hash, make: (context) => dataOf(path, context as unknown as Context) };
}

export async function hashOfPython(path: string): Promise<string> {
  try {
    return new Uint8Array(await crypto.subtle.digest("SHA-256", await Deno.readFile(path))).toHex();
  } catch (cause) {
    const why = cause instanceof Deno.errors.NotFound ? "is not there" : "can't be read";
    throw new UserError("usage", `The file ${path} ${why}.`, { cause });
  }
}

interface Context {
  readonly settings: Readonly<Record<string, unknown>> & { readonly python?: string };
  readonly seed: number;
}

/** A thread opens several splits, and all are one process's. */
const made = new Map<string, unknown>();

function dataOf(path: string, { settings, seed }: Context): unknown {
  const key = JSON.stringify([path, settings, seed]);
  const data = made.get(key) ?? startPython(path, settings, seed);
  made.set(key, data);
  return data;
}

interface Hello {
  readonly task: unknown;
  readonly outputs: unknown;
  readonly train: number;
  readonly val: number | null;
}

function startPython(path: string, settings: Context["settings"], seed: number): unknown {
  const server = startServer(path, settings, seed);
  let hello: Hello;
  try {
    hello = server.answer() as Hello;
  } finally {
    server.hide();
  }
  const { task, outputs, train, val } = hello;
  const samples = (role: "train" | "val", length: number) => ({
    length,
    batch: (ids: readonly number[], epoch: number) => server.rows(role, ids, epoch),
  });
  return { task, outputs, train: samples("train", train), val: val === null ? null : samples("val", val) };
}

const SERVER = new URL("./templates/dataset_server.py", import.meta.url);
/**
 * A signal to all processes of a job stops training in order, and Python with it: it ends when its pipe does. The shell
 * ignores signals until Python has handlers for them, ends what Python leaves in its process group, and tells of its end,
 * for whatever reason. Its input ends with this process, by which Python's guard knows.
 */
const SHELL = 'trap "" INT TERM HUP USR1 USR2; exec 3<>"$1" 4<&0; shift; "$@" <&4 1>&2 3>&- 4<&- & ' +
  'exec 4<&- 2>/dev/null; wait $!; kill -9 -$!; printf "\\n{\\"ended\\":true}\\n" >&3';
/** Inputs of shells. The garbage collector would close them, and with that end Python. */
const leashes: WritableStream[] = [];
/** A data set that takes longer is told of, once where it is opened and once where it gives samples. */
const SILENT_MS = 10_000;

interface Server {
  answer(): unknown;
  rows(role: string, ids: readonly number[], epoch: number): unknown;
  /** Removes the names of pipes and memory. */
  hide(): void;
}

function startServer(path: string, settings: Context["settings"], seed: number): Server {
  const folder = Deno.makeTempDirSync({ dir: pathExists("/dev/shm") ? "/dev/shm" : undefined });
  const hide = () => {
    try {
      Deno.removeSync(folder, { recursive: true });
    } catch { /* it is hidden */ }
  };
  const python = settings.python || "python3";
  const [requests, replies, memory] = ["requests", "replies", "memory"].map((name) => join(folder, name));
  try {
    if (!makePipe(requests) || !makePipe(replies)) {
      throw new UserError(
        "environment",
        `${path}: no named pipe can be made in ${folder}, through which Python is asked for samples.`,
      );
    }
    // Both ends are open here, so that opening waits for nobody.
    const requestPipe = Deno.openSync(requests, { read: true, write: true });
    const answers = lineReader(Deno.openSync(replies, { read: true, write: true }));
    const isReady = pipeWaiter(replies);
    const rows = Deno.openSync(memory, { read: true, write: true, create: true, mode: 0o600 });
    const program = Deno.readTextFileSync(SERVER);
    const words = [
      python,
      "-c",
      program,
      path,
      requests,
      replies,
      memory,
      JSON.stringify(settings),
      `${seed}`,
    ];
    const shell = new Deno.Command("sh", {
      args: ["-c", SHELL, "sh", replies, ...words],
      stdin: "piped",
      stdout: "null",
      stderr: "inherit",
      env: { OMP_NUM_THREADS: "1", PYTHONUNBUFFERED: "1" },
    }).spawn();
    shell.unref();
    leashes.push(shell.stdin);
    const encoder = new TextEncoder();
    const awaited = new Set<string>();
    const answer = (what: string) => {
      const reply = answers(() => {
        if (isReady(SILENT_MS) || awaited.has(what)) return;
        awaited.add(what);
        console.error(clean(`${path}: ${what} is awaited from ${python} for ${SILENT_MS / 1000} s already.`));
      }) as { error?: string; ended?: true };
      if (reply.error !== undefined) throw new UserError("usage", `${reply.error.replace(/\.$/, "")}.`);
      if (reply.ended === undefined) return reply;
      throw new UserError(
        "usage",
        `${path}: ${python} has ended while it gave samples; what it printed stands above. Another Python is chosen with ` +
          "--data-python, such as --data-python .venv/bin/python.",
      );
    };
    return {
      answer: () => answer("the data set"),
      hide,
      rows(role, ids, epoch) {
        writeWhole(requestPipe, encoder.encode(JSON.stringify({ role, ids, epoch }) + "\n"));
        const { columns, ...found } = answer("a sample") as Record<string, Placed> & { columns?: unknown };
        const tensors = Object.entries(found).map(([name, placed]) => [name, tensorOf(rows, placed)]);
        return { ...Object.fromEntries(tensors), columns };
      },
    };
  } catch (cause) {
    hide();
    throw cause;
  }
}

interface Placed {
  readonly dtype: "float32" | "int64" | "uint8";
  readonly shape: readonly number[];
  readonly at: number;
}

const ARRAYS = { float32: Float32Array, int64: BigInt64Array, uint8: Uint8Array } as const;

function tensorOf(memory: Deno.FsFile, { dtype, shape, at }: Placed): unknown {
  const values = new ARRAYS[dtype](shape.reduce((product, n) => product * n, 1));
  const bytes = new Uint8Array(values.buffer);
  memory.seekSync(at, Deno.SeekMode.Start);
  for (let done = 0; done < bytes.length;) done += memory.readSync(bytes.subarray(done)) ?? bytes.length;
  return tensor(values, shape);
}

function writeWhole(file: Deno.FsFile, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length;) done += file.writeSync(bytes.subarray(done));
}

/** Gives the next line that is not empty, as JSON. `wait` is called before a read that may take long. */
function lineReader(pipe: Deno.FsFile): (wait: () => void) => unknown {
  const decoder = new TextDecoder(), chunk = new Uint8Array(1 << 16);
  let rest = "";
  return (wait) => {
    for (;;) {
      const end = rest.indexOf("\n");
      const line = end < 0 ? "" : rest.slice(0, end);
      if (end >= 0) rest = rest.slice(end + 1);
      if (line !== "") return JSON.parse(line);
      if (end >= 0) continue;
      wait();
      rest += decoder.decode(chunk.subarray(0, pipe.readSync(chunk) ?? 0), { stream: true });
    }
  };
}
