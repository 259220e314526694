// The scheduler: which one is here, its version, whether it answers. May import line, ask.
import { onPath, said } from "./ask.ts";
import { good, type Line, warn } from "./line.ts";

export interface SchedulerFacts {
  readonly name: "SLURM" | "PBS" | null;
  /** The program that submits. */
  readonly program: string | null;
  readonly version: string | null;
  /** Whether its server answered; null where that was not asked. */
  readonly answers: boolean | null;
  /** The job that this is in. */
  readonly job: string | null;
}

export async function gatherScheduler(env: Readonly<Record<string, string>>): Promise<SchedulerFacts> {
  const job = env.SLURM_JOB_ID ?? env.PBS_JOBID ?? null;
  const sbatch = onPath("sbatch", env), qsub = onPath("qsub", env);
  if (sbatch) {
    const beside = (name: string) => `${sbatch.slice(0, sbatch.lastIndexOf("/"))}/${name}`;
    const [version, ping] = await Promise.all([
      said(sbatch, ["--version"]),
      said(beside("scontrol"), ["ping"]),
    ]);
    const answers = ping !== null && /\bUP\b/.test(ping);
    return { name: "SLURM", program: sbatch, version: short(version), answers, job };
  }
  if (qsub) {
    const beside = (name: string) => `${qsub.slice(0, qsub.lastIndexOf("/"))}/${name}`;
    const [version, state] = await Promise.all([said(qsub, ["--version"]), said(beside("qstat"), ["-B"])]);
    return { name: "PBS", program: qsub, version: short(version), answers: state !== null, job };
  }
  const name = env.SLURM_JOB_ID ? "SLURM" : env.PBS_JOBID ? "PBS" : null;
  return { name, program: null, version: null, answers: null, job };
}

/** "slurm-wlm 22.05.8", "pbs_version = 23.06.06": the number alone. */
const short = (text: string | null): string | null => /\d+\.\d+[\w.]*/.exec(text ?? "")?.[0] ?? null;

const NAME = "scheduler";

export function judgeScheduler({ name, program, version, answers, job }: SchedulerFacts): Line[] {
  if (name === null) return [good(NAME, "none on this machine; `hpctrain launch` starts several ranks")];
  const which = `${name} ${version ?? "of unknown version"}${job ? `, in job ${job}` : ", outside of a job"}`;
  if (program === null) {
    // A container on a compute node: what is asked of the scheduler is how much time is left.
    return [warn(
      NAME,
      `${which}, but its programs are not on PATH: a run can't ask how much time is left`,
      `Add them to PATH (in a container: bind /usr/bin/${
        name === "SLURM" ? "squeue" : "qstat"
      } in), or let the ` +
        "scheduler send a signal before the end (--signal=B:USR1@300).",
    )];
  }
  if (answers === false) {
    return [warn(
      NAME,
      `${which}, whose server does not answer (${program})`,
      `Try \`${
        name === "SLURM" ? "scontrol ping" : "qstat -B"
      }\`; while it fails, jobs can't be submitted from here.`,
    )];
  }
  return [good(NAME, which)];
}
