// The folder of a search: several processes take its trials, each of them once, and what a dead one had is taken up.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { join } from "@std/path";
import { endClaim, type Holder, takeClaim, thisHolder } from "../../../../core/cluster/sweep/claims.ts";
import { tellOptuna } from "../../../../core/cluster/sweep/optuna.ts";
import { writeSweep } from "../../../../core/cluster/sweep/runs.ts";
import type { SearchKind } from "../../../../core/cluster/sweep/search.ts";
import { parseSearchFile } from "../../../../core/cluster/sweep/space.ts";
import {
  claimTrial,
  nextTrial,
  readTrials,
  type SearchSweep,
  settle,
  takeTrial,
} from "../../../../core/cluster/sweep/trials.ts";
import { optuna } from "./optuna_peer.ts";

const SPACE =
  "space: {lr: {log: [1e-5, 1e-1]}, hidden-size: {int: [8, 64]}, optimizer: {choice: [adamw, sgd]}}";

async function inSweep(
  given: { kind?: SearchKind; maxRuns: number },
  body: (folder: string, sweep: SearchSweep) => Promise<void> | void,
): Promise<void> {
  const saveDir = Deno.makeTempDirSync(), folder = join(saveDir, "sweeps/s");
  const { kind = "random", maxRuns } = given;
  const sweep: SearchSweep = {
    ...{ format: 1, version: "0", name: "s", command: [], saveDir, metric: "val_loss", runs: [], fixed: [] },
    goal: "minimize",
    search: { kind, space: parseSearchFile(SPACE, "file").space, maxRuns, seed: 1, rungs: null },
  };
  writeSweep(folder, sweep);
  try {
    await body(folder, sweep);
  } finally {
    Deno.removeSync(saveDir, { recursive: true });
  }
}

function worker(folder: string, dies = 0): Promise<number[]> {
  const file = new URL("./trials_worker.ts", import.meta.url).pathname;
  const args = ["run", "--quiet", "--allow-all", "--no-check", file, folder, String(dies)];
  return new Deno.Command(Deno.execPath(), { args, stderr: "inherit" }).output()
    .then(({ stdout }) => JSON.parse(new TextDecoder().decode(stdout)));
}

const DONE = { state: "done", value: 1, step: 1, epoch: 1, code: 0, why: "" } as const;
const elsewhere = (holder: Holder, host: string): Holder => ({ ...holder, host });

Deno.test("processes take each trial once, and what a killed one had is taken once more", () =>
  inSweep({ maxRuns: 60 }, async (folder, sweep) => {
    const taken = await Promise.all([worker(folder), worker(folder), worker(folder, 4)]);
    const all = taken.flat().sort((a, b) => a - b);
    const [lost] = taken[2].slice(-1);
    const expected = [...Array.from({ length: 60 }, (_, i) => i)];
    const left = readTrials(folder).filter(({ result }) => result === null).map(({ number }) => number);
    // The others may have ended before it died.
    assertEquals(all, left.length > 0 ? expected : [...expected, lost].sort((a, b) => a - b));
    assertEquals(left.length > 0 ? left : [lost], [lost]);
    if (left.length > 0) assertEquals(await worker(folder), [lost]);
    const trials = readTrials(folder);
    assert(trials.every(({ result }) => result?.state === "done"));
    assertEquals(new Set(trials.map(({ words }) => words.join())).size, 60);
    assertEquals(takeTrial(folder, sweep, await thisHolder({})), null);
    assertEquals(
      [...Deno.readDirSync(join(folder, "trials"))].filter(({ name }) => name.includes("tmp")),
      [],
    );
  }));

Deno.test("a claim is its holder's until it ends, goes silent, or its job begins again", () =>
  inSweep({ maxRuns: 3 }, async (folder, sweep) => {
    const me = await thisHolder({}), other = elsewhere(me, "node7");
    const job = { SLURM_ARRAY_JOB_ID: "6", SLURM_ARRAY_TASK_ID: "2", HPCTRAIN_SECRET: "a" };
    const mine = await thisHolder(job), again = await thisHolder({ ...job, HPCTRAIN_SECRET: "b" });
    assert(!JSON.stringify(mine).includes('"a"'), "the secret is in a file");

    const first = takeTrial(folder, sweep, other)!;
    assertEquals([first.trial.number, takeTrial(folder, sweep, me)?.trial.number], [0, 1]);
    assertEquals(claimTrial(folder, sweep, 0, me), null);
    // Two that find it silent: one of them gets it.
    Deno.utimeSync(first.claim.path, new Date(0), new Date(Date.now() - 300_000));
    const claims = [me, elsewhere(me, "node8")].map((holder) =>
      takeClaim(join(folder, "trials"), "0000", holder)
    );
    assertEquals(claims.map((claim) => claim?.number), [2, undefined]);
    endClaim(claims[0]!);
    assertEquals(claimTrial(folder, sweep, 0, other)?.claim.number, 3);

    assertEquals(takeTrial(folder, sweep, elsewhere(mine, "node1"))?.trial.number, 2);
    assertEquals(nextTrial(folder, sweep, me), null);
    assertEquals(takeTrial(folder, sweep, elsewhere(again, "node2"))?.trial.number, 2);
  }));

Deno.test("a trial whose process dies again and again has failed", () =>
  inSweep({ maxRuns: 1 }, async (folder, sweep) => {
    const me = await thisHolder({}), dead = { ...me, pid: 1, started: "never" };
    for (let i = 0; i < 5; i++) assertEquals(takeTrial(folder, sweep, dead)?.trial.number, 0);
    assertEquals(takeTrial(folder, sweep, dead), null);
    assertMatch(readTrials(folder)[0].result!.why, /died 5 times/);
  }));

Deno.test("a trial's file that is damaged is told in a sentence", () =>
  inSweep({ maxRuns: 2 }, async (folder, sweep) => {
    takeTrial(folder, sweep, await thisHolder({}));
    Deno.writeTextFileSync(join(folder, "trials/0000.json"), '{"run": 7');
    assertThrows(() => readTrials(folder), Error, "is damaged: it names no run");
  }));

/** What a run costs beside its training: to choose it, to claim it, to note its end, and to tell Optuna of it twice. */
async function oneRun(folder: string, sweep: SearchSweep, me: Holder): Promise<number> {
  const began = performance.now();
  const { trial: { number, words: [lr] }, claim } = takeTrial(folder, sweep, me)!;
  await tellOptuna(folder, sweep);
  const value = (Math.log10(Number(lr)) + 3) ** 2, fails = number % 50 === 9;
  settle(folder, number, { ...DONE, value: fails ? null : value, state: fails ? "failed" : "done" });
  await tellOptuna(folder, sweep, new Map([[number, [{ step: 1, epoch: 1, value: value + 1 }]]]));
  endClaim(claim);
  return performance.now() - began;
}

Deno.test("a search costs less than 0.3 s a run, also after a hundred runs, and real Optuna knows them all", () =>
  inSweep({ kind: "tpe", maxRuns: 120 }, async (folder, sweep) => {
    const me = await thisHolder({}), costs: number[] = [];
    for (let i = 0; i < 119; i++) costs.push(await oneRun(folder, sweep, me));
    const moved = `${folder}-2`; // this process has read none of these files
    Deno.renameSync(folder, moved);
    const cold = await oneRun(moved, sweep, me), [median] = costs.toSorted((a, b) => a - b).slice(60);
    assert(cold < 300 && median < 300, `${cold} ms, ${median} ms`);
    if (Deno.env.get("HPCTRAIN_TEST_TIMES")) console.log(`${cold} ms for a process of its own, ${median} ms`);

    const seen = await optuna<
      { states: Record<string, number>; last: Record<string, unknown>; seen: unknown }
    >(
      `
import optuna, collections
optuna.logging.set_verbosity(optuna.logging.ERROR)
storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(asked))
study = optuna.load_study(study_name="s", storage=storage)
states = collections.Counter(t.state.name for t in study.trials)
last = study.trials[119]
study.optimize(lambda trial: trial.suggest_float("lr", 1e-5, 1e-1, log=True), n_trials=1)  # it can go on there
assert [t.user_attrs.get("hpctrain_trial") for t in study.trials] == [*range(120), None]
print(json.dumps({"states": states, "last": last.params, "seen": [last.value, last.intermediate_values]}))`,
      join(moved, "optuna.log"),
    );
    assertEquals(seen.states, { COMPLETE: 117, FAIL: 3 });
    const { words: [lr, hidden, kind], result } = readTrials(moved)[119];
    assertEquals(seen.last, { lr: Number(lr), "hidden-size": Number(hidden), optimizer: kind });
    assertEquals(seen.seen, [result!.value, { 1: result!.value! + 1 }]);

    // After a stranger's trial, and with a line that a kill has cut.
    Deno.writeTextFileSync(join(moved, "optuna.log"), '{"op_code":4,"wor', { append: true });
    const more = { ...sweep, search: { ...sweep.search, maxRuns: 121 } };
    await oneRun(moved, more, me);
    const numbers = await optuna<(number | null)[]>(
      `
import optuna
storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(asked))
trials = optuna.load_study(study_name="s", storage=storage).trials
print(json.dumps([t.user_attrs.get("hpctrain_trial") for t in trials if t.state.is_finished()]))`,
      join(moved, "optuna.log"),
    );
    assertEquals(numbers.slice(-2), [null, 120]);
  }));
