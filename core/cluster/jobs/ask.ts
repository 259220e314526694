// What the scheduler says of a job, and how to end one. May import errors, its neighbours.
import { UserError } from "../../errors.ts";
import { askProgram } from "../time_left.ts";

export interface JobState {
  /** In the scheduler's own word: "RUNNING", "PENDING", "R". */
  readonly state: string;
  readonly left: string | null;
  /** Why it waits, or where it runs. */
  readonly why: string | null;
  /** What it prints to, where that is told. */
  readonly output: string | null;
}

type Ask = typeof askProgram;

/** Null where no scheduler here knows the job: it has ended, or is another cluster's. */
export async function stateOf(job: string, ask: Ask = askProgram): Promise<JobState | null> {
  return ofSqueue(await ask(["squeue", "--noheader", "--jobs", job, "--format", "%T|%L|%R"])) ??
    ofQstat(await ask(["qstat", "-f", job]));
}

export function ofSqueue(text: string | null): JobState | null {
  const [state, left, why] = text?.trim().split("\n")[0].split("|") ?? [];
  return state && why !== undefined
    ? { state, left: left === "INVALID" ? null : left, why, output: null }
    : null;
}

export function ofQstat(text: string | null): JobState | null {
  const whole = (text ?? "").replace(/\n\t/g, "");
  const field = (name: string) =>
    new RegExp(`^\\s*${name.replace(".", "\\.")}\\s*=\\s*(.+)$`, "m").exec(whole)?.[1] ?? null;
  const state = field("job_state");
  if (state === null) return null;
  return { state, left: null, why: field("comment") ?? field("exec_host"), output: field("Output_Path") };
}

/** Which program was asked. */
export async function cancel(job: string): Promise<string> {
  for (const program of ["scancel", "qdel"]) {
    let answer: Deno.CommandOutput;
    try {
      answer = await new Deno.Command(program, { args: [job], stdin: "null" }).output();
    } catch (cause) {
      if (cause instanceof Deno.errors.NotFound) continue;
      throw cause;
    }
    if (answer.success) return program;
    const said = new TextDecoder().decode(answer.stderr).trim().split("\n")[0];
    throw new UserError("usage", `${program} would not end the job ${job}: ${said}`);
  }
  throw new UserError(
    "usage",
    `There is neither scancel nor qdel here to end the job ${job}: do it on a login node.`,
  );
}
