// `scripts/bench allreduce`: `hpctrain bench allreduce` by Open MPI and by MPICH, beside PyTorch over Gloo.
import { join } from "paths";
import { ALL_REDUCE_SIZES, type AllReduceTiming } from "../core/ranks/team.ts";
import { formatBytes } from "../core/base/format.ts";
import { writePage } from "./page.ts";
import { machine, median, table, versionsOf, writeResults } from "./report.ts";
import type { Programs } from "./step.ts";

const RANKS = 2, ROUNDS = 3;

type Times = Pick<AllReduceTiming, "bytes" | "seconds">[];

/** The folders of both kinds of MPI. */
export async function allreduceBenchmark(p: Programs, openmpi: string, mpich: string): Promise<void> {
  const about = machine();
  const sides: Record<string, () => Promise<Times>> = {
    "Open MPI": () => ours(p.exe, openmpi),
    MPICH: () => ours(p.exe, mpich),
    "PyTorch, Gloo": () => pytorch(p.python),
  };
  const rounds: Record<string, Times[]> = {};
  for (let round = 0; round < ROUNDS; round++) {
    for (const [side, measure] of Object.entries(sides)) (rounds[side] ??= []).push(await measure());
  }
  const found = Object.fromEntries(
    Object.entries(rounds).map((
      [side, all],
    ) => [side, ALL_REDUCE_SIZES.map((_, i) => median(all.map((of) => of[i].seconds)))]),
  );
  const rows = ALL_REDUCE_SIZES.map((size, i) =>
    rowOf(size, Object.values(found).map((seconds) => seconds[i]))
  );
  for (const row of rows) console.log(row.join("  "));
  write(p, about, found, rows, Object.keys(sides));
}

async function ours(exe: string, mpi: string): Promise<Times> {
  const args = [
    "launch",
    "-n",
    `${RANKS}`,
    "--",
    "bench",
    "allreduce",
    "--device=cpu",
    "--threads=1",
    "--json",
  ];
  const folder = Deno.makeTempDirSync();
  const env = { PATH: `${join(mpi, "bin")}:${Deno.env.get("PATH")}`, OMP_NUM_THREADS: "1" };
  const said = await run(exe, args, env, folder);
  Deno.removeSync(folder, { recursive: true });
  return JSON.parse(said).measured;
}

async function pytorch(python: string): Promise<Times> {
  const peer = new URL("peers/allreduce.py", import.meta.url).pathname;
  const args = [
    "-m",
    "torch.distributed.run",
    "--nproc-per-node",
    `${RANKS}`,
    "--standalone",
    peer,
    JSON.stringify(ALL_REDUCE_SIZES),
  ];
  const said = await run(python, args, { OMP_NUM_THREADS: "1" });
  return JSON.parse(said.split("\n").find((line) => line.startsWith("[")) ?? "");
}

async function run(
  program: string,
  args: string[],
  env: Record<string, string>,
  cwd?: string,
): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args, env, cwd, stdin: "null" })
    .output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  if (!success) throw new Error(`${program} ${args.join(" ")} failed: ${text(stderr).slice(-2000)}`);
  return text(stdout);
}

/** With two ranks the bus carries as many bytes as are added up. */
function rowOf(size: number, seconds: number[]): string[] {
  const cell = (s: number) => `${(1e6 * s).toFixed(0)} us, ${(size / s / 1e9).toFixed(2)} GB/s`;
  const gloo = seconds[seconds.length - 1];
  return [
    formatBytes(size),
    ...seconds.map(cell),
    ...seconds.slice(0, -1).map((s) => `${(gloo / s).toFixed(2)}x`),
  ];
}

function write(
  p: Programs,
  about: ReturnType<typeof machine>,
  found: Record<string, number[]>,
  rows: string[][],
  sides: string[],
): void {
  const versions = versionsOf(p), date = new Date().toISOString().slice(0, 10);
  writeResults("allreduce", {
    command: "./scripts/bench allreduce",
    date,
    machine: about,
    versions,
    sizes: ALL_REDUCE_SIZES,
    found,
  });
  const [open, mpich] = sides;
  writePage(
    "allreduce",
    [
      "# All-reduce, beside Gloo",
      `\`./scripts/bench allreduce\` on ${date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; Python ` +
      `${versions.python} with PyTorch ${versions.torch}. ${RANKS} ranks of one thread on one node add up f32; several ` +
      `are queued one behind another. Time and bus bandwidth, medians of ${ROUNDS} rounds in which all take turns; the ` +
      "last columns are how many times as fast as Gloo hpctrain is.",
      table(["Size", ...sides, `${open} to Gloo`, `${mpich} to Gloo`], rows),
    ].join("\n\n"),
  );
}
