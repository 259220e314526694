// The program on several ranks of a real MPI, and what its runs left. Test helper.
import { join } from "paths";
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { tensorBytes, TensorData, type Value } from "../../core/checkpoint/value.ts";
import type { MpiUnderTest } from "../mpi.ts";
import { COMMAND, eventsOf, type Options, type Result, run } from "./program.ts";

/** Trains a run of this name; on one rank without a launcher. */
export async function train(
  cwd: string,
  name: string,
  ranks: number,
  flags: readonly string[],
  { mpi, wrapped = [], ...options }: Options & { mpi: MpiUnderTest; wrapped?: string[] },
): Promise<Result> {
  const args = [
    "train",
    ...flags,
    "--device=cpu",
    "--log-interval=1",
    `--run-name=${name}`,
    "--save-dir",
    cwd,
  ];
  const path = `${join(mpi.folder, "bin")}:${Deno.env.get("PATH") ?? ""}`;
  // Open MPI finds no place for its shared memory now and then, as `launch` says.
  const env = { OMP_NUM_THREADS: "1", PMIX_MCA_gds: "hash", PATH: path, ...options.env };
  const through = ranks === 1 ? [] : [...mpi.launcher, "-n", String(ranks), ...wrapped];
  return await run(args, { ...options, cwd, env, through });
}

export async function trained(...call: Parameters<typeof train>): Promise<void> {
  const { code, stdout, stderr } = await train(...call);
  if (code !== 0) throw new Error(`${COMMAND[0]} ended with code ${code}:\n${stdout}${stderr}`);
}

/** Losses and norms of a run's records, in order. */
export function numbers(cwd: string, name: string, kinds = ["step", "eval", "epoch"]): number[] {
  return eventsOf(cwd, name).filter(({ kind }) => kinds.includes(kind as string)).flatMap((event) =>
    ["loss", "val_loss", "grad_norm"].flatMap((field) =>
      typeof event[field] === "number" ? [event[field] as number] : []
    )
  );
}

/** How far two lists are apart at most, relative to the first. */
export function apart(a: readonly number[], b: readonly number[]): number {
  if (a.length !== b.length || a.length === 0) return Infinity;
  return Math.max(...a.map((value, i) => Math.abs(value - b[i]) / Math.max(Math.abs(value), 1e-12)));
}

/** The tensors of a run's last checkpoint, by their place in it. */
export function tensors(cwd: string, name: string): Map<string, Float32Array> {
  using file = openCheckpoint(join(cwd, "checkpoints", `${name}_latest.pt`));
  const found = new Map<string, Float32Array>();
  const visit = (value: Value, at: string) => {
    if (value instanceof TensorData && value.dtype === "f32") {
      found.set(at, new Float32Array(tensorBytes(value).slice().buffer));
    } else if (value instanceof Map) { for (const [key, inner] of value) visit(inner, `${at}/${key}`); }
  };
  visit(file.root, "");
  return found;
}

/** The largest distance of the weights, relative to each tensor's largest number. */
export function weightsApart(a: Map<string, Float32Array>, b: Map<string, Float32Array>): number {
  return Math.max(
    ...[...a].filter(([at]) => at.startsWith("/model_state_dict")).map(([at, values]) => {
      const other = b.get(at)!;
      const largest = values.reduce((most, v) => Math.max(most, Math.abs(v)), 1e-12);
      return values.reduce((most, v, i) => Math.max(most, Math.abs(v - other[i])), 0) / largest;
    }),
  );
}
