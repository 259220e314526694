// Early stopping against the real Optuna.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { searchOf, type SearchWords } from "../../../core/cluster/sweep/search.ts";
import { parseSearchFile } from "../../../core/cluster/sweep/space.ts";
import { BEGIN, type Rungs } from "../../../core/cluster/sweep/metric.ts";
import { key, uniform } from "../../../core/base/random.ts";
import { optuna } from "../../../tests/core/cluster/sweep/optuna_peer.ts";
import { climb, goesOn } from "../search.ts";

const ASK_OPTUNA = `
import optuna
from optuna.trial import TrialState
optuna.logging.set_verbosity(optuna.logging.ERROR)

def climbs(runs, direction):
    study = optuna.create_study(direction=direction)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=asked["first"], reduction_factor=asked["reduce"])
    ended = []
    for values in runs:
        trial = study.ask()
        for step, value in enumerate(values, 1):
            trial.report(value, step)
            if pruner.prune(study, study._storage.get_trial(trial._trial_id)): break
        ended.append(step)
        study.tell(trial, state=TrialState.PRUNED)
    return ended

print(json.dumps(climbs(asked["runs"], "minimize")))
`;

const noise = uniform(key(3, "values"));

Deno.test("runs are stopped at the rungs at which Optuna stops them", async () => {
  const rungs: Rungs = { unit: "epochs", first: 2, reduce: 3 };
  const runs = Array.from(
    { length: 40 },
    (_, run) =>
      Array.from({ length: 27 }, (_, step) => noise(1000 + 40 * run) + noise(9000 + 40 * run + step) / 4),
  );
  const stopped = await optuna<number[]>(ASK_OPTUNA, { first: rungs.first, reduce: rungs.reduce, runs });

  const reached: number[][] = [];
  const ours = runs.map((values) => {
    let now = BEGIN;
    const before = reached.map((others) => [...others]);
    for (const [i, value] of values.entries()) {
      const othersAt = (rung: number) => before.flatMap((others) => others[rung] ?? []);
      now = climb(now, { step: 0, epoch: i + 1, value }, rungs, { end: Infinity, othersAt });
      if (now.stoppedAt !== null) {
        reached.push([...now.values]);
        return i + 1;
      }
    }
    reached.push([...now.values]);
    return values.length;
  });
  assertEquals(ours, stopped);
  assert(new Set(stopped).size > 3, `${stopped}`); // at different rungs
});

Deno.test("a run is not stopped where it ends by itself, nor by a rung it has passed, and NaN never goes on", () => {
  const rungs: Rungs = { unit: "steps", first: 10, reduce: 2 };
  const at = (step: number, value: number, before = BEGIN) =>
    climb(before, { step, epoch: 1, value }, rungs, { end: 40, othersAt: () => [0.1, 0.2, 0.3] });
  assertEquals(at(9, 9).stoppedAt, null);
  assertEquals(at(10, 9).stoppedAt, 0);
  assertEquals(at(40, 9), BEGIN);
  assertEquals(at(25, 0.05), { values: [0.05, 0.05], stoppedAt: null });
  assertEquals(at(10, NaN).stoppedAt, 0);
  assert(goesOn(1, [], 4) && !goesOn(2, [1], 4));
});

Deno.test("asha has rungs by itself and other searches by --first-rung, and what they can't mean is refused", () => {
  const { space } = parseSearchFile("space: {lr: {log: [1e-5, 1e-1]}}", "f");
  assertEquals(searchOf({ search: "asha", "max-runs": "5" }, space, 3).rungs, {
    unit: "epochs",
    first: 1,
    reduce: 3,
  });
  const steps = { search: "random", "max-runs": "5", "first-rung": "500steps", reduce: "4" };
  assertEquals(searchOf(steps, space, 3).rungs, { unit: "steps", first: 500, reduce: 4 });
  const refused = (words: Partial<SearchWords>) =>
    assertThrows(() => searchOf({ search: "asha", "max-runs": "9", ...words }, space, 0), UserError).message;
  assertMatch(refused({ "first-rung": "10min" }), /epochs or steps, such as 1ep/);
  assertMatch(refused({ "first-rung": "0ep" }), /epochs or steps/);
  assertMatch(refused({ reduce: "1" }), /--reduce should be 2 or more/);
  assertMatch(refused({ search: "random", reduce: "3" }), /belongs to --search asha/);
});
