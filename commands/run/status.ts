// `hpctrain status`: in a few lines how a run stands, from its files and the scheduler.
import { findRunOrJob, type JobState, jobState, outputOfJob, withJob } from "../../core/cluster/jobs.ts";
import { errBeside } from "../../core/cluster/script/job.ts";
import { clean } from "../../core/base/terminal.ts";
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
  const { folder, job } = await findRunOrJob(positionals[0], options["save-dir"]);
  const answer = job === null ? null : await jobState(job);
  const found = folder === null ? null : factsOf(folder);
  const facts = found && { ...found, ...await withJob(found, job, answer) };
  const output = facts === null && job !== null ? outputOf(options["save-dir"] ?? ".", job, answer) : null;
  if (facts === null && answer === null && output === null) {
    throw new UserError(
      "usage",
      `No scheduler here knows the job ${job}, and no run below logs/ was trained by it: it may have ended before it began ` +
        `one (see what it printed: hpctrain logs ${job}), or belong to another folder (--save-dir DIR).`,
    );
  }
  const lines = options.json
    ? [JSON.stringify({ job, scheduler: answer, run: facts, output })]
    : [...linesOf(facts, job, answer, output)].map(([name, value]) => `${name.padEnd(10)}${value}`);
  for (const line of lines) console.log(line);
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
      ...(best?.monitor && { monitor: best.monitor.name, best: best.monitor.value }),
      best_epoch: best?.epoch ?? null,
      goodput_percent: lineage?.goodput_percent ?? null,
      attempts: lineage?.attempts.length ?? 1,
      sampled: data.sampled,
    };
  } finally {
    reader.close();
  }
}

interface JobOutput {
  readonly path: string;
  /** The last line that is not empty: why a job without a run has ended stands there. */
  readonly last: string;
}

function outputOf(saveDir: string, job: string, answer: JobState | null): JobOutput | null {
  const path = outputOfJob(saveDir, job) ?? answer?.output;
  if (!path) return null;
  for (const file of [errBeside(path), path]) {
    const last = lastLine(file);
    if (last !== null) return { path: file, last };
  }
  return null;
}

const TAIL_BYTES = 4096;

function lastLine(path: string): string | null {
  try {
    using file = Deno.openSync(path);
    file.seekSync(-Math.min(TAIL_BYTES, file.statSync().size), Deno.SeekMode.End);
    const bytes = new Uint8Array(TAIL_BYTES);
    const text = new TextDecoder().decode(bytes.subarray(0, file.readSync(bytes) ?? 0));
    return text.split("\n").findLast((line) => line.trim() !== "") ?? null;
  } catch {
    return null;
  }
}

const last = ({ curves }: RunData, name: string): number | null => curves.get(name)?.last ?? null;

type Facts = ReturnType<typeof factsOf>;

function* linesOf(
  facts: Facts | null,
  job: string | null,
  answer: JobState | null,
  output: JobOutput | null,
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
        : facts.best !== undefined
        ? `; best ${facts.monitor} ${formatValue(facts.best)} at epoch ${facts.best_epoch}`
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
  const why = answer?.why ? `${answer.over ? "," : ""} ${answer.why}` : "";
  yield [
    "job",
    answer ? `${job}: ${answer.state}${left}${why}` : `${job}: the scheduler does not know it any more`,
  ];
  if (output) yield ["output", `${output.path}: ${clean(output.last)}`];
}
