// The journal of Optuna (JournalFileBackend): a line of JSON for each operation, appended under Optuna's own lock, so
// that Optuna and optuna-dashboard read a sweep while it runs. It is told what the folder of the trials says and the
// journal does not, so a killed process leaves nothing untold.
import { join } from "../../deps/path.ts";
import { remove, writeAll } from "../../core/base/atomic.ts";
import type { SearchJournal } from "../../core/cluster/sweep/journals.ts";
import type { TrialEvaluation } from "../../core/cluster/sweep/metric.ts";
import { type SearchDimension, valueOf } from "../../core/cluster/sweep/space.ts";
import { readTrials, type SearchSweep, type Trial } from "../../core/cluster/sweep/trials.ts";

const journalIn = (folder: string): string => join(folder, "optuna.log");

const OP = { createStudy: 0, deleteStudy: 1, createTrial: 4, state: 6, evaluation: 7, attribute: 8 } as const;
const STATE = { running: 0, done: 1, pruned: 2, failed: 3 } as const;
const DIRECTION = { minimize: 1, maximize: 2 } as const;
/** A trial of ours has its number under this name among the user's attributes. */
const NUMBER = "hpctrain_trial";

type Line = Readonly<Record<string, unknown>> & { readonly op_code: number };

interface KnownTrial {
  readonly id: number;
  ended: boolean;
  readonly steps: Set<number>;
}

interface Journal {
  /** Null while the study is not made. */
  readonly study: number | null;
  readonly studies: number;
  readonly trials: number;
  /** By the numbers of our trials. */
  readonly optunaTrials: ReadonlyMap<number, KnownTrial>;
}

export const journal: SearchJournal = {
  title: "Optuna's journal",
  async tell(folder, sweep, evaluations = new Map()) {
    const path = journalIn(folder);
    await withLock(path, () => {
      const lines = linesToTell(sweep, readTrials(folder), readJournal(path, sweep.name), evaluations);
      if (lines.length === 0) return;
      using file = Deno.openSync(path, { append: true, create: true });
      const text = lines.map((line) => JSON.stringify(line) + "\n").join("");
      writeAll(file, new TextEncoder().encode(text));
    });
  },
};

function linesToTell(
  sweep: SearchSweep,
  trials: readonly Trial[],
  journal: Journal,
  evaluations: ReadonlyMap<number, readonly TrialEvaluation[]>,
): Line[] {
  const worker = { worker_id: `hpctrain-${Deno.hostname()}-${Deno.pid}` };
  const now = new Date().toISOString().replace("Z", "000+00:00");
  const study = journal.study ?? journal.studies;
  const lines: Line[] = [];
  if (journal.study === null) {
    const directions = [DIRECTION[sweep.goal ?? "minimize"]];
    lines.push({ op_code: OP.createStudy, ...worker, study_name: sweep.name, directions });
  }
  let next = journal.trials;
  for (const trial of trials) {
    const known = journal.optunaTrials.get(trial.number) ?? { id: next, ended: false, steps: new Set() };
    if (known.id === next && !journal.optunaTrials.has(trial.number)) {
      next++;
      lines.push({
        op_code: OP.createTrial,
        ...worker,
        study_id: study,
        ...begun(sweep, trial),
        datetime_start: now,
      });
    }
    if (known.ended) continue;
    const trial_id = known.id;
    for (const { epoch, value } of evaluations.get(trial.number) ?? []) {
      if (known.steps.has(epoch) || !Number.isFinite(value)) continue;
      known.steps.add(epoch);
      lines.push({ op_code: OP.evaluation, ...worker, trial_id, step: epoch, intermediate_value: value });
    }
    if (trial.result === null) continue;
    const { state, value, why } = trial.result;
    if (why) lines.push({ op_code: OP.attribute, ...worker, trial_id, user_attr: { why } });
    const values = value === null ? null : [value];
    lines.push({
      op_code: OP.state,
      ...worker,
      trial_id,
      state: STATE[state],
      values,
      datetime_complete: now,
    });
  }
  return lines;
}

function begun({ search: { space } }: SearchSweep, { number, run, words }: Trial) {
  return {
    state: STATE.running,
    value: null,
    values: null,
    distributions: Object.fromEntries(space.map((one) => [one.name, distributionOf(one)])),
    params: Object.fromEntries(space.map((one, d) => [one.name, valueOf(one, words[d])])),
    user_attrs: { [NUMBER]: number, run },
    system_attrs: {},
    intermediate_values: {},
  };
}

function distributionOf(dimension: SearchDimension): string {
  if (dimension.kind === "choice") {
    return JSON.stringify({ name: "CategoricalDistribution", attributes: { choices: dimension.choices } });
  }
  const { kind, low, high, log } = dimension;
  return kind === "int"
    ? JSON.stringify({ name: "IntDistribution", attributes: { log, step: 1, low, high } })
    : JSON.stringify({ name: "FloatDistribution", attributes: { step: null, low, high, log } });
}

/** Others may write studies and trials of their own there: their numbers are counted as Optuna counts them. */
function readJournal(path: string, name: string): Journal {
  const names = new Map<number, string>(),
    optunaTrials = new Map<number, KnownTrial>(),
    byId = new Map<number, KnownTrial>();
  let studies = 0, trials = 0, study: number | null = null;
  for (const line of linesOf(path)) {
    if (line.op_code === OP.createStudy && ![...names.values()].includes(String(line.study_name))) {
      if (line.study_name === name) study = studies;
      names.set(studies++, String(line.study_name));
    } else if (line.op_code === OP.deleteStudy) {
      names.delete(Number(line.study_id));
      if (line.study_id === study) study = null;
    } else if (line.op_code === OP.createTrial && names.has(Number(line.study_id))) {
      const one: KnownTrial = { id: trials++, ended: false, steps: new Set() };
      byId.set(one.id, one);
      const number = (line.user_attrs as Record<string, unknown> | undefined)?.[NUMBER];
      if (line.study_id === study && typeof number === "number") optunaTrials.set(number, one);
    } else if (line.op_code === OP.evaluation) {
      byId.get(Number(line.trial_id))?.steps.add(Number(line.step));
    } else if (line.op_code === OP.state && [1, 2, 3].includes(Number(line.state))) {
      const one = byId.get(Number(line.trial_id));
      if (one) one.ended = true;
    }
  }
  return { study, studies, trials, optunaTrials };
}

/** A last line that a kill has cut is removed: who holds the lock may. */
function linesOf(path: string): Line[] {
  let text: string;
  try {
    text = Deno.readTextFileSync(path);
  } catch {
    return [];
  }
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  if (whole.length < text.length) Deno.truncateSync(path, new TextEncoder().encode(whole).length);
  return whole.split("\n").slice(0, -1).flatMap((line) => {
    try {
      return [JSON.parse(line)];
    } catch {
      return [];
    }
  });
}

/** Optuna takes a lock for left behind when nothing has changed for so long. */
const LEFT_BEHIND_MS = 30_000;

/** The lock of Optuna's JournalFileSymlinkLock: a link that one process alone can make. */
async function withLock(path: string, act: () => void): Promise<void> {
  const lock = `${path}.lock`;
  let seen: number | null = null, since = Date.now();
  for (let wait = 1; !tryLink(path, lock); wait = Math.min(2 * wait, 100)) {
    const made = timeOf(lock);
    if (made !== seen) [seen, since] = [made, Date.now()];
    else if (Date.now() - since > LEFT_BEHIND_MS) release(lock);
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
  try {
    act();
  } finally {
    release(lock);
  }
}

function tryLink(target: string, lock: string): boolean {
  try {
    Deno.symlinkSync(target, lock);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return false;
    throw error;
  }
}

function release(lock: string): void {
  const gone = `${lock}${crypto.randomUUID()}.rename`;
  try {
    Deno.renameSync(lock, gone);
    remove(gone);
  } catch {
    // Another process took it for left behind.
  }
}

function timeOf(path: string): number | null {
  try {
    return Deno.lstatSync(path).mtime?.getTime() ?? null;
  } catch {
    return null;
  }
}
