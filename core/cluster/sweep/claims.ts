// Who trains a trial. A claim is a file that only one process can make, so several machines can take trials from one
// folder. Its holder touches it while it trains; a claim whose holder is gone is passed over by the next one, with
// the next number, and nothing is ever taken away.
import { readText, statOf } from "../../base/files.ts";
import { join } from "../../../deps/path.ts";
import { remove, temporaryFor } from "../../base/atomic.ts";
import { writing } from "../../base/new_file.ts";

/** A process that trains, as others can recognise it. */
export interface Holder {
  readonly host: string;
  readonly pid: number;
  /** Numbers of processes are those of a namespace, and are used again: the start tells them apart. */
  readonly namespace: string;
  readonly started: string;
  /** The job, which is the same after a requeue; null outside of one. */
  readonly job: string | null;
  /** All ranks of one start of a job share it; it is null for a process alone. */
  readonly start: string | null;
  /** It has ended in order, and the trial is free. */
  readonly ended?: true;
}

export interface Claim {
  readonly path: string;
  readonly number: number;
  readonly holder: Holder;
}

/** A holder that can't be looked up seems gone when it has not touched its claim for so long. */
const SILENT_MS = 120_000;
export const TOUCH_MS = 5_000;

export async function thisHolder(env: Readonly<Record<string, string | undefined>>): Promise<Holder> {
  const array = env.SLURM_ARRAY_JOB_ID && `${env.SLURM_ARRAY_JOB_ID}_${env.SLURM_ARRAY_TASK_ID}`;
  const job = array || env.SLURM_JOB_ID || env.PBS_JOBID || null;
  return {
    host: Deno.hostname(),
    pid: Deno.pid,
    namespace: namespaceOf("self"),
    started: processStart(Deno.pid) ?? "",
    job,
    start: await startOfJob(env),
  };
}

/** The ranks of a job share a secret, of which a file that others can read has a hash alone. */
export async function startOfJob(env: Readonly<Record<string, string | undefined>>): Promise<string | null> {
  const secret = env.HPCTRAIN_SECRET;
  if (!secret) return null;
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`sweep ${secret}`));
  return new Uint8Array(digest).toHex().slice(0, 24);
}

const claimPath = (folder: string, trial: string, number: number): string =>
  join(folder, `${trial}.claim-${number}`);

/** Null where somebody else holds it. */
export function takeClaim(folder: string, trial: string, holder: Holder): Claim | null {
  const held = lastClaim(folder, trial);
  if (held !== null && isHeld(held, holder)) return null;
  const number = (held?.number ?? 0) + 1, path = claimPath(folder, trial, number);
  return createWhole(path, textOf(holder)) ? { path, number, holder } : null;
}

/** A file appears whole or not at all, and false means that there was one. */
export function createWhole(path: string, text: string): boolean {
  const temporary = temporaryFor(path);
  try {
    writing(path, () => Deno.writeTextFileSync(temporary, text, { createNew: true }));
    try {
      Deno.linkSync(temporary, path);
      return true;
    } catch (error) {
      if (error instanceof Deno.errors.AlreadyExists) return false;
      return createPlain(path, text); // a file system without hard links
    }
  } finally {
    remove(temporary);
  }
}

function createPlain(path: string, text: string): boolean {
  try {
    writing(path, () => Deno.writeTextFileSync(path, text, { createNew: true }));
    return true;
  } catch (error) {
    if ((error as Error).cause instanceof Deno.errors.AlreadyExists) return false;
    throw error;
  }
}

export function lastClaim(folder: string, trial: string): Claim | null {
  let last: Claim | null = null;
  for (let number = 1;; number++) {
    const path = claimPath(folder, trial, number);
    const holder = readHolder(path);
    if (holder === null) return last;
    last = { path, number, holder };
  }
}

/** How many of its holders have left no end. */
export function deathsOf(folder: string, trial: string): number {
  let deaths = 0;
  for (let number = 1;; number++) {
    const holder = readHolder(claimPath(folder, trial, number));
    if (holder === null) return deaths;
    if (!holder.ended) deaths++;
  }
}

export const isLast = ({ path, number }: Claim): boolean =>
  readHolder(path.replace(/\d+$/, String(number + 1))) === null;

function readHolder(path: string): Holder | null {
  const text = readText(path);
  if (text === null) return null;
  try {
    return JSON.parse(text);
  } catch {
    return { host: "", pid: 0, namespace: "", started: "", job: null, start: null }; // known by its age alone
  }
}

/** Does somebody else train it? */
export function isHeld({ path, holder }: Claim, me: Holder): boolean {
  if (holder.ended) return false;
  // The same job begins again only after its earlier start has ended.
  if (holder.job !== null && holder.job === me.job && holder.start !== me.start) return false;
  if (holder.host === me.host && holder.namespace === me.namespace) {
    return processStart(holder.pid) === holder.started;
  }
  return !isSilent(path);
}

/** The clocks of machines differ, so a claim that seems old is compared with a file that is made now. */
function isSilent(path: string): boolean {
  const touched = timeOf(path);
  if (touched === null || Date.now() - touched < SILENT_MS) return false;
  const probe = temporaryFor(path);
  try {
    Deno.writeTextFileSync(probe, "", { createNew: true });
    return (timeOf(probe) ?? touched) - touched >= SILENT_MS;
  } catch {
    return false; // whoever writes there next says why
  } finally {
    remove(probe);
  }
}

const timeOf = (path: string): number | null => statOf(path)?.mtime?.getTime() ?? null;

/** The same bytes again: the file system notes its own time. */
export function touchClaim({ path, holder }: Claim): void {
  overwrite(path, textOf(holder));
}

export function endClaim({ path, holder }: Claim): void {
  overwrite(path, textOf({ ...holder, ended: true }));
}

function overwrite(path: string, text: string): void {
  try {
    using file = Deno.openSync(path, { write: true });
    file.writeSync(new TextEncoder().encode(text));
  } catch {
    // The folder is gone, or the disk refuses: the run itself says so.
  }
}

/** All texts of one holder are of one length, so that one replaces another. */
const textOf = (holder: Holder): string => {
  const text = JSON.stringify(holder);
  return text.padEnd(text.length + (holder.ended ? 0 : ',"ended":true'.length)) + "\n";
};

/** When a process was started, in ticks since the machine was; null where there is none. */
export function processStart(pid: number): string | null {
  try {
    const fields = Deno.readTextFileSync(`/proc/${pid}/stat`).replace(/^.*\) /s, "").split(" ");
    return /[ZX]/.test(fields[0]) ? null : `${bootOf()} ${fields[19]}`;
  } catch {
    return null;
  }
}

const bootOf = (): string => readText("/proc/sys/kernel/random/boot_id")?.trim() ?? "";

function namespaceOf(process: string): string {
  try {
    return Deno.readLinkSync(`/proc/${process}/ns/pid`);
  } catch {
    return "";
  }
}
