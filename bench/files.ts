// `scripts/bench files`: how many files two ranks open until their first step has ended, beside torchrun with
// PyTorch's DistributedDataParallel. A job of many nodes asks a shared file system for each of them.
import { join } from "paths";
import {
  inFolder,
  rankWorkloads,
  run,
  stepsIn,
  TORCHRUN_ENV,
  torchrunArguments,
  torchrunOutput,
  trainArguments,
} from "./ranks.ts";
import { writePage } from "./page.ts";
import { machine, table, versionsOf, writeResults } from "./report.ts";
import type { Programs } from "./step.ts";

const RANKS = 2, STEPS = 2;

export interface Counted {
  /** Calls that opened a file, a folder or a device. */
  readonly opened: number;
  /** Different ones among them. */
  readonly files: number;
  /** Calls that name a path, found or not: opens, looks, executions. */
  readonly calls: number;
}

/** Reads the output of `strace -f -ttt -e trace=%file` up to `until` (Unix seconds). The kernel's own folders are no files. */
export function countCalls(trace: string, until: number): Counted {
  let opened = 0, calls = 0;
  const files = new Set<string>();
  for (const line of trace.split("\n")) {
    const [, time, rest = ""] = /^(?:\d+ +)?(\d+\.\d+) (.*)$/.exec(line) ?? [];
    if (time === undefined || Number(time) > until) continue;
    if (!/^\w+\(/.test(rest) && !/^<\.\.\. \w+ resumed>/.test(rest)) continue; // an exit, a signal
    const resumed = rest.startsWith("<...");
    const path = /"((?:[^"\\]|\\.)*)"/.exec(rest)?.[1];
    if (!resumed && path !== undefined && /^\/(proc|sys|dev)(\/|$)/.test(path)) continue;
    if (!resumed) calls++; // an unfinished call is counted where it begins
    // With -y the descriptor is followed by the path that it stands for, resumed or not.
    const [, name] = /\bopen(?:at|at2)?\b.* = \d+<(.*)>(?: ?\(deleted\))?$/.exec(rest) ?? [];
    if (name === undefined || /^\/(proc|sys|dev)(\/|$)/.test(name)) continue;
    opened++;
    files.add(name);
  }
  return { opened, files: files.size, calls };
}

/** `quick`: nothing is written. */
export async function filesBenchmark(p: Programs, mpi: string, quick = false): Promise<void> {
  await mustTrace();
  const workload = rankWorkloads.convnet;
  const ours = await inFolder(async (folder) => {
    const words = ["launch", "-n", `${RANKS}`, "--", ...trainArguments(workload, STEPS, folder)];
    const env = { HPCTRAIN_MPI: join(mpi, "lib/libmpi.so.12") };
    const traced = await trace(join(folder, "trace"), p.exe, words, env);
    return countCalls(traced.trace, stepsIn(folder)[0]);
  });
  const python = await inFolder(async (folder) => {
    const words = torchrunArguments(RANKS, "convnet", STEPS);
    const traced = await trace(join(folder, "trace"), p.python, words, TORCHRUN_ENV);
    return countCalls(traced.trace, torchrunOutput(traced.said).done[0]);
  });
  const rows = rowsOf(ours, python);
  for (const row of rows) console.log(row.join("  "));
  if (!quick) write(p, rows, { ours, python });
}

async function mustTrace(): Promise<void> {
  const why = await run("strace", ["-qq", "-e", "trace=none", "true"]).then(
    () => null,
    (error: Error) => error,
  );
  if (why === null) return;
  const lacking = why instanceof Deno.errors.NotFound;
  throw new Error(
    lacking
      ? "strace is not installed, and nothing else counts the files that programs open: apt-get install strace."
      : `strace can't look at other programs here (a container without ptrace?): ${why.message.slice(-300)}`,
  );
}

async function trace(path: string, program: string, words: readonly string[], env: Record<string, string>) {
  const flags = ["-f", "-y", "-ttt", "-qq", "-e", "trace=%file", "-e", "signal=none", "-s", "512"];
  const said = await run("strace", [...flags, "-o", path, program, ...words], env);
  return { trace: Deno.readTextFileSync(path), said };
}

const rowsOf = (ours: Counted, python: Counted): string[][] =>
  ([["Files opened", "opened"], ["Different files", "files"], ["Calls that name a file", "calls"]] as const)
    .map(([title, what]) => [
      title,
      `${ours[what]}`,
      `${python[what]}`,
      `1/${(python[what] / ours[what]).toFixed(1)}`,
    ]);

function write(p: Programs, rows: string[][], found: Record<string, Counted>): void {
  const about = machine(), versions = versionsOf(p), date = new Date().toISOString().slice(0, 10);
  writeResults("files", { command: "./scripts/bench files", date, machine: about, versions, ...found });
  writePage(
    "files",
    [
      "# Files opened until the first step",
      `\`./scripts/bench files\` on ${date}: libtorch ${versions.libtorch}, Python ${versions.python} with PyTorch ` +
      `${versions.torch}. \`hpctrain launch -n ${RANKS}\` with MPICH and \`torchrun --nproc-per-node ${RANKS}\` with ` +
      "DistributedDataParallel train simple-convnet; strace counts the calls of all their processes until the first " +
      "step has ended. What the kernel shows as files (/proc, /sys, /dev) is left out.",
      table(["Until the first step", "hpctrain", "torchrun", "Ratio"], rows),
    ].join("\n\n"),
  );
}
