// `hpctrain status`: in a few lines how a run stands, from its files and the scheduler.
import { findRunOrJob, type JobState, stateOf } from "../../core/cluster/jobs.ts";
import { parseOptions } from "../../core/settings/options.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatDuration, formatValue } from "../../core/base/format.ts";
import { openRun, type RunData } from "../../core/run/run_data.ts";
import { progressOf, runStatusOf } from "../../core/run/status.ts";
import { OPTIONS } from "../status.ts";

const USAGE = "hpctrain status [RUN | JOB] [--save-dir DIR] [--json]";

export async function status(argv: string[]): Promise<number> {
  const { options, positionals } = parseOptions(argv, OPTIONS, USAGE);
  if (positionals.length > 1) throw new UserError("usage", `status takes one run or job. Usage: ${USAGE}`);
  const { folder, job } = findRunOrJob(positionals[0], options["save-dir"]);
  const answer = job === null ? null : await stateOf(job);
  const facts = folder === null ? null : factsOf(folder);
  if (facts === null && answer === null) {
    throw new UserError(
      "usage",
      `No scheduler here knows the job ${job}, and no run below logs/ was trained by it: it may have ended before it began ` +
        `one (see what it printed: hpctrain logs ${job}), or belong to another folder (--save-dir DIR).`,
    );
  }
  if (options.json) console.log(JSON.stringify({ job, scheduler: answer, run: facts }));
  else for (const [name, said] of linesOf(facts, job, answer)) console.log(`${name.padEnd(10)}${said}`);
  return EXIT.done;
}

function factsOf(folder: string) {
  const reader = openRun(folder, { sample: true });
  try {
    reader.poll();
    const { data } = reader;
    const { state, why } = runStatusOf(data, Date.now() / 1000);
    const { lineage, best } = data;
    return {
      run: data.name,
      folder,
      state,
      why,
      ...progressOf(data),
      loss: last(data, "loss"),
      best_val_loss: best?.loss ?? null,
      best_epoch: best?.epoch ?? null,
      goodput_percent: lineage?.goodput_percent ?? null,
      attempts: lineage?.attempts.length ?? 1,
      sampled: data.sampled,
    };
  } finally {
    reader.close();
  }
}

const last = ({ curves }: RunData, name: string): number | null => curves.get(name)?.last ?? null;

type Facts = ReturnType<typeof factsOf>;

function* linesOf(
  facts: Facts | null,
  job: string | null,
  answer: JobState | null,
): Generator<[string, string]> {
  if (facts) {
    yield ["run", `${facts.run} (${facts.folder})`];
    yield ["state", `${facts.state}: ${facts.why}`];
    const of = facts.steps === null ? "" : ` of ${facts.steps}`;
    const epochs = facts.epochs === null ? "" : `, epoch ${facts.epoch} of ${facts.epochs}`;
    yield ["step", `${facts.step}${of}${epochs}`];
    if (facts.loss !== null) {
      const best = facts.best_val_loss === null
        ? ""
        : `; best Val Loss ${formatValue(facts.best_val_loss)} at epoch ${facts.best_epoch}`;
      yield ["loss", formatValue(facts.loss) + best];
    }
    if (facts.sampled) yield ["", "The run has said very much: a sample of it was read"];
    if (facts.secondsLeft !== null && facts.state === "running") {
      yield ["ready in", formatDuration(facts.secondsLeft)];
    }
    if (facts.goodput_percent !== null) {
      const attempts = facts.attempts > 1 ? `, ${facts.attempts} attempts` : "";
      yield ["goodput", `${facts.goodput_percent.toFixed(1)}% of the time was training${attempts}`];
    }
  }
  if (job === null) return;
  const left = answer?.left ? `, ${answer.left} left` : "";
  const why = answer?.why ? ` ${answer.why}` : "";
  yield [
    "job",
    answer ? `${job}: ${answer.state}${left}${why}` : `${job}: the scheduler does not know it any more`,
  ];
}
