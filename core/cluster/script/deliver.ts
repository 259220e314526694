// A script -> a file, a folder for what the job prints, and a job in the queue. May import errors, @std/path.
import { dirname } from "../../../deps/path.ts";
import { UserError } from "../../errors.ts";

const OURS = /^#!.*\n# Made by hpctrain /;

/** Writes it, and keeps what was there. Returns what there is to say of that. */
export function writeScript(path: string, script: string): string[] {
  const before = textOf(path);
  if (before === script) return [];
  if (before !== null && !OURS.test(before)) {
    throw new UserError(
      "usage",
      `--output ${path}: there is a file which hpctrain has not made. Name another, or move it away.`,
    );
  }
  if (before !== null) guarded(path, () => Deno.renameSync(path, `${path}~`));
  makeFolder(dirname(path));
  guarded(path, () => Deno.writeTextFileSync(path, script, { mode: 0o755 }));
  return before === null ? [] : [`What ${path} was before is in ${path}~.`];
}

/** The scheduler makes no folder: the output of a job without one goes nowhere. */
export function makeFolder(path: string): void {
  guarded(path, () => Deno.mkdirSync(path, { recursive: true }));
}

/** What the scheduler's program says; null where there is no such program. */
export async function ask(
  program: string,
  args: readonly string[],
): Promise<{ code: number; stdout: string; stderr: string } | null> {
  try {
    const { code, stdout, stderr } = await new Deno.Command(program, { args: [...args], stdin: "null" })
      .output();
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes).trim();
    return { code, stdout: text(stdout), stderr: text(stderr) };
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw new UserError("environment", `${program} can't be started: ${(error as Error).message}.`);
  }
}

/** Submits the file, and returns what the scheduler printed. */
export async function submit(program: string, args: readonly string[], path: string): Promise<string> {
  const answer = await ask(program, [...args, path]);
  if (!answer) {
    throw new UserError(
      "environment",
      `There is no ${program} in PATH: submit from a login node of the cluster. The script is in ${path}.`,
    );
  }
  if (answer.code !== 0) throw refused(program, answer, path);
  if (answer.stderr) console.error(answer.stderr);
  return answer.stdout;
}

export function refused(
  program: string,
  { code, stderr, stdout }: { code: number; stderr: string; stdout: string },
  path: string,
): UserError {
  const said = (stderr || stdout).split("\n").filter((line) => line).join("; ") || `exit code ${code}`;
  return new UserError("usage", `${program} refused the job: ${said}. The script is in ${path}.`);
}

function textOf(path: string): string | null {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw new UserError("usage", `${path} can't be read: ${(error as Error).message}.`);
  }
}

function guarded(path: string, action: () => void): void {
  try {
    action();
  } catch (error) {
    const why = (error as Error).message.replace(/ \(os error.*/, "");
    throw new UserError("usage", `${path} can't be written: ${why}.`);
  }
}
