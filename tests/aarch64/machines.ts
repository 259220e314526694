// The executables for both architectures, on one machine: this one's own, and one that is emulated. Test helper.
import { resolve } from "paths";
import { environment, eventsOf, finish, type Options, type Result } from "../integration/program.ts";

export interface Machine {
  readonly name: "x86_64" | "aarch64";
  readonly exe: string;
  readonly libtorch: string;
  readonly mpich: string;
}

function given(variable: string): string {
  const value = Deno.env.get(variable);
  if (!value) throw new Error(`set ${variable}; ./scripts/test-aarch64 sets it`);
  return resolve(value);
}

export const X86: Machine = {
  name: "x86_64",
  exe: given("HPCTRAIN_EXE"),
  libtorch: given("HPCTRAIN_LIBTORCH"),
  mpich: given("HPCTRAIN_MPICH"),
};
export const ARM: Machine = {
  name: "aarch64",
  exe: given("HPCTRAIN_EXE_AARCH64"),
  libtorch: given("HPCTRAIN_LIBTORCH_AARCH64"),
  mpich: given("HPCTRAIN_MPICH_AARCH64"),
};

/** Seconds after which an emulated program is killed. */
const LONGEST = 600;

export async function on(machine: Machine, args: readonly string[], options: Options = {}): Promise<Result> {
  const { cwd, env, timeout = LONGEST } = options;
  const child = new Deno.Command(machine.exe, {
    args: [...args],
    cwd,
    env: { ...environment(), HPCTRAIN_LIBTORCH: machine.libtorch, ...env },
    clearEnv: true,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  return await finish(child, timeout);
}

/** It must succeed. */
export async function done(machine: Machine, args: readonly string[], options?: Options): Promise<Result> {
  const result = await on(machine, args, options);
  if (result.code === 0) return result;
  throw new Error(`exit code ${result.code} on ${machine.name}:\n${result.stdout}${result.stderr}`);
}

export const train = (machine: Machine, cwd: string, run: string, flags: readonly string[], env = {}) =>
  done(
    machine,
    [
      ...["train", "--device=cpu", "--threads=1", "--log-interval=1", "--no-wandb"],
      ...[`--run-name=${run}`, "--save-dir", cwd, ...flags],
    ],
    { cwd, env },
  );

/** The losses of a run's steps, in order. */
export const losses = (cwd: string, run: string): number[] =>
  eventsOf(cwd, run).filter(({ kind }) => kind === "step").map(({ loss }) => loss as number);

/** How far two lists are apart at most, relative to the first. */
export function apart(a: readonly number[], b: readonly number[]): number {
  if (a.length !== b.length || a.length === 0) return Infinity;
  return Math.max(...a.map((value, i) => Math.abs(value - b[i]) / Math.max(Math.abs(value), 1e-12)));
}
