// Jobs in the scheduler's queue: submits a script, finds the job of a run, reads its state, cancels it.
import { dirname, join } from "../../deps/path.ts";
import { findRun, NEWEST_RUN, runsIn } from "../run/run_data.ts";
import { readLineage } from "../run/lineage.ts";
import { messageOf, UserError } from "../base/errors.ts";
import { slug } from "./script/job.ts";
import { COMMANDS } from "./script/scheduler.ts";
import type { RunStatus } from "../run/status.ts";
import { askProgram } from "../ranks/job/scheduler.ts";

interface RunOrJob {
  /** It is null where the job has no run here yet. */
  readonly folder: string | null;
  /** It is null where the run was started without a scheduler. */
  readonly job: string | null;
}

/** SLURM's 17 and 17_3; PBS's 17.server and 17[3].server. */
const JOB_ID = /^\d+(_\d+|\[\d*\])?(\.[\w.-]+)?$/;

export async function findRunOrJob(
  word: string = NEWEST_RUN,
  saveDir = ".",
  ask: Ask = askProgram,
): Promise<RunOrJob> {
  const runs = runsIn(join(saveDir, "logs"));
  const named = runs.some(({ name }) => name === word);
  if (!JOB_ID.test(word) || named) {
    try {
      const folder = findRun(word, saveDir);
      return { folder, job: jobOf(folder) };
    } catch (error) {
      const job = error instanceof UserError ? await jobNamed(word, ask) : null;
      if (job === null) throw error;
      return { folder: null, job };
    }
  }
  const found = runs.find(({ name }) => {
    const job = jobOf(join(saveDir, "logs", name));
    return job !== null && (job === word || job.split(".")[0] === word);
  });
  return { folder: found ? join(saveDir, "logs", found.name) : null, job: word };
}

/** The user's newest job of this name in the queue, which has no run yet; null where there is none. */
async function jobNamed(name: string, ask: Ask): Promise<string | null> {
  const user = Deno.env.get("USER") ?? Deno.env.get("LOGNAME") ?? String(Deno.uid());
  const found = await ask(["squeue", "--noheader", "--user", user, "--name", slug(name), "--format", "%i"]) ??
    await ask(["qselect", "-u", user, "-N", slug(name)]);
  return found?.trim().split("\n").at(-1) || null;
}

function jobOf(folder: string): string | null {
  try {
    return readLineage(folder)?.attempts.at(-1)?.job_id ?? null;
  } catch {
    return null; // a damaged lineage says nothing
  }
}

export interface JobState {
  /** The scheduler's own word: "RUNNING", "PENDING", "R". */
  readonly state: string;
  /** The job has ended, and does not come back. */
  readonly over: boolean;
  readonly left: string | null;
  readonly why: string | null;
  readonly output: string | null;
}

type Ask = typeof askProgram;

/** Returns null where no scheduler here knows the job: it has ended long ago, or is on another cluster. */
export async function jobState(job: string, ask: Ask = askProgram): Promise<JobState | null> {
  return ofSqueue(await ask(["squeue", "--noheader", "--jobs", job, "--format", "%T|%L|%R"])) ??
    ofScontrol(await ask(["scontrol", "--oneliner", "show", "job", job])) ??
    ofSacct(await ask(["sacct", "-X", "-n", "-P", "-j", job, "-o", "State,ExitCode,End"])) ??
    ofQstat(await ask(["qstat", "-f", job])) ?? ofQstat(await ask(["qstat", "-x", "-f", job]));
}

/** True where a scheduler answers at all. */
const hasScheduler = async (ask: Ask = askProgram): Promise<boolean> =>
  await ask(["squeue", "--version"]) !== null || await ask(["qstat", "--version"]) !== null;

const UNENDED = ["running", "starting", "silent", "requeued"];

/** A run's files don't tell that its job was cancelled, or ended with its node: the scheduler does. */
export async function withJob(
  status: RunStatus,
  job: string | null,
  answer: JobState | null,
): Promise<RunStatus> {
  if (job === null || !UNENDED.includes(status.state)) return status;
  const requeued = status.state === "requeued";
  const over = answer?.over
    ? `its job ${job} has ended: ${[answer.state, answer.why].filter((part) => part).join(", ")}`
    : null;
  const unknown = answer === null && requeued && await hasScheduler()
    ? `the scheduler does not know its job ${job} any more`
    : null;
  const why = over ?? unknown;
  return why === null ? status : { state: requeued ? "stopped" : "gone", why: `${status.why}; ${why}` };
}

const OVER =
  /^(BOOT_FAIL|CANCELLED|COMPLETED|DEADLINE|FAILED|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|REVOKED|TIMEOUT)\b/;

/** A job that has ended some minutes ago, and how. */
export function ofScontrol(text: string | null): JobState | null {
  const field = (name: string) => new RegExp(`(?:^|\\s)${name}=(\\S+)`).exec(text ?? "")?.[1] ?? null;
  const state = field("JobState");
  if (state === null) return null;
  const over = OVER.test(state);
  const why = over ? endText(field("ExitCode"), field("EndTime")) : field("Reason");
  return { state, over, left: null, why, output: field("StdOut") };
}

/** "FAILED|2:0|2026-11-22T01:00:00" of the site's accounts. */
export function ofSacct(text: string | null): JobState | null {
  const [state, code, end] = text?.trim().split("\n")[0].split("|") ?? [];
  if (!state || end === undefined) return null;
  return { state, over: OVER.test(state), left: null, why: endText(code, end), output: null };
}

function endText(code: string | null, end: string | null): string {
  const [exit, signal] = (code ?? "").split(":");
  const how = signal && signal !== "0" ? `signal ${signal}` : `exit code ${exit || "unknown"}`;
  return `${how}${end && /^\d/.test(end) ? `, at ${end.replace("T", " ")}` : ""}`;
}

export function ofSqueue(text: string | null): JobState | null {
  const [state, left, why] = text?.trim().split("\n")[0].split("|") ?? [];
  return state && why !== undefined
    ? { state, over: false, left: left === "INVALID" ? null : left, why, output: null }
    : null;
}

export function ofQstat(text: string | null): JobState | null {
  const whole = (text ?? "").replace(/\n\t/g, "");
  const field = (name: string) =>
    new RegExp(`^\\s*${name.replace(".", "\\.")}\\s*=\\s*(.+)$`, "m").exec(whole)?.[1] ?? null;
  const state = field("job_state");
  if (state === null) return null;
  const over = state === "F" || state === "C";
  return {
    state,
    over,
    left: null,
    why: field("comment") ?? field("exec_host"),
    output: field("Output_Path"),
  };
}

export async function cancelJob(job: string): Promise<string> {
  for (const program of ["scancel", "qdel"]) {
    let answer: Deno.CommandOutput;
    try {
      answer = await new Deno.Command(program, { args: [job], stdin: "null" }).output();
    } catch (cause) {
      if (cause instanceof Deno.errors.NotFound) continue;
      throw cause;
    }
    if (answer.success) return program;
    const message = new TextDecoder().decode(answer.stderr).trim().split("\n")[0];
    throw new UserError("usage", `${program} would not end the job ${job}: ${message}`);
  }
  throw new UserError(
    "usage",
    `There is neither scancel nor qdel here to end the job ${job}: do it on a login node.`,
  );
}

/** A scheduler catches what a job prints below the logs of its runs. */
export const outputOfJob = (saveDir: string, job: string): string | undefined =>
  Object.keys(COMMANDS).flatMap((name) => outputIn(join(saveDir, "logs", name), job) ?? [])[0];

/** "name_17.out", "name_17_3.out", "name.17.server.out": the job's own, else one of its array. */
export function outputIn(folder: string, job: string): string | null {
  const number = job.split(".")[0].replace(/[[\]]/g, "\\$&");
  const ours = [`[_.]${number}$`, `[_.]${number}\\.[\\w.-]+$`, `[_.]${number}_\\d+$`].map((end) =>
    new RegExp(end)
  );
  try {
    const names = [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) =>
      name.endsWith(".out")
    )
      .toSorted();
    const found = ours.flatMap((own) => names.filter((name) => own.test(name.slice(0, -4))))[0];
    return found ? join(folder, found) : null;
  } catch {
    return null; // no such folder
  }
}

/** The job's variables may hold a secret. */
const OWNERS = 0o700;

const OURS = /^#!.*\n# Made by hpctrain /;

/** Keeps the file that was there, and returns sentences about that. */
export function writeScript(path: string, script: string): string[] {
  const before = textOf(path);
  if (before === script) {
    guarded(path, () => Deno.chmodSync(path, OWNERS)); // by an older version others could read it
    return [];
  }
  if (before !== null && !OURS.test(before)) {
    throw new UserError(
      "usage",
      `--output ${path}: there is a file which hpctrain has not made. Name another, or move it away.`,
    );
  }
  if (before !== null) {
    guarded(path, () => Deno.renameSync(path, `${path}~`));
    guarded(path, () => Deno.chmodSync(`${path}~`, OWNERS));
  }
  makeOutputFolder(dirname(path));
  guarded(path, () => Deno.writeTextFileSync(path, script, { mode: OWNERS }));
  return before === null ? [] : [`What ${path} was before is in ${path}~.`];
}

/** The scheduler makes no folder: without one the output is lost. */
export function makeOutputFolder(path: string): void {
  guarded(path, () => Deno.mkdirSync(path, { recursive: true }));
}

/** Returns null where there is no such program. */
export async function runSubmit(
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
    throw new UserError("environment", `${program} can't be started: ${messageOf(error)}.`);
  }
}

/** `request` says what the job asks for, should it be refused. */
export async function submit(
  program: string,
  args: readonly string[],
  path: string,
  request: string,
): Promise<string> {
  const answer = await runSubmit(program, [...args, path]);
  if (!answer) {
    throw new UserError(
      "environment",
      `There is no ${program} in PATH: submit from a login node of the cluster. The script is in ${path}.`,
    );
  }
  if (answer.code !== 0) throw submitRefused(program, answer, path, request);
  if (answer.stderr) console.error(answer.stderr);
  return answer.stdout;
}

export function submitRefused(
  program: string,
  { code, stderr, stdout }: { code: number; stderr: string; stdout: string },
  path: string,
  request: string,
): UserError {
  const message = (stderr || stdout).split("\n").filter((line) => line).join("; ") || `exit code ${code}`;
  return new UserError(
    "usage",
    `${program} refused the job: ${message}. ${request} The script is in ${path}.`,
  );
}

function textOf(path: string): string | null {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw new UserError("usage", `${path} can't be read: ${messageOf(error)}.`);
  }
}

function guarded(path: string, action: () => void): void {
  try {
    action();
  } catch (error) {
    const why = messageOf(error).replace(/ \(os error.*/, "");
    throw new UserError("usage", `${path} can't be written: ${why}.`);
  }
}
