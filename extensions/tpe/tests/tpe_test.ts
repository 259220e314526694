// TPE against the real Optuna, and against random draws.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { logDensity, parzenOf, type Point, splitTried, type TriedPoint } from "../search.ts";
import { dimensionValue, type SearchDimension, valueOf } from "../../../core/cluster/sweep/space.ts";
import { nextWords, type Search } from "../../../core/cluster/sweep/search.ts";
import { key, uniform } from "../../../core/base/random.ts";
import { optuna } from "../../../tests/core/cluster/sweep/optuna_peer.ts";

const range = (
  kind: "float" | "int",
  name: string,
  low: number,
  high: number,
  log: boolean,
): SearchDimension => ({
  name,
  path: name,
  before: `--set=${name}=`,
  kind,
  low,
  high,
  log,
});
const SPACE: SearchDimension[] = [
  range("float", "lr", 1e-6, 1, true),
  range("float", "dropout", 0, 0.9, false),
  range("int", "hidden", 8, 1024, true),
  range("int", "layers", 1, 6, false),
  { name: "optimizer", path: "optimizer", before: "--optimizer=", kind: "choice", choices: ["a", "b", "c"] },
];

const ASK_OPTUNA = `
import math, numpy, optuna, warnings
warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
from optuna.distributions import *
from optuna.samplers._tpe.parzen_estimator import _ParzenEstimator, _ParzenEstimatorParameters
from optuna.samplers._tpe.sampler import default_weights, default_gamma, _split_trials
from optuna.trial import create_trial, TrialState

def distribution(d):
    if d["kind"] == "choice": return CategoricalDistribution(d["choices"])
    kind = IntDistribution if d["kind"] == "int" else FloatDistribution
    return kind(d["low"], d["high"], log=d["log"])

rules = _ParzenEstimatorParameters(1.0, True, False, default_weights, True)
def densities(case):
    space = {d["name"]: distribution(d) for d in case["space"]}
    columns = lambda points: {name: numpy.array([p[i] for p in points], dtype=float) for i, name in enumerate(space)}
    return _ParzenEstimator(columns(case["observed"]), space, rules).log_pdf(columns(case["candidates"])).tolist()

study = optuna.create_study()
states = {"done": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "running": TrialState.RUNNING}
for i, tried in enumerate(asked["tried"]):
    trial = create_trial(state=TrialState.COMPLETE, value=0.0, params={"i": i}, distributions={"i": IntDistribution(0, 999)})
    trial.state = states[tried["state"]]
    trial.values = [tried["value"]] if tried["state"] == "done" else None
    if tried["state"] == "pruned": trial.intermediate_values = {tried["step"]: tried["value"]}
    if tried["state"] != "done": trial.datetime_complete = None
    trial.number = i
    study._storage._studies = getattr(study._storage, "_studies", {})
    asked["tried"][i] = trial
ended = sum(t.state != TrialState.RUNNING for t in asked["tried"])
below, above = _split_trials(study, asked["tried"], default_gamma(ended))

print(json.dumps({
    "densities": [densities(case) for case in asked["cases"]],
    "good": [t.number for t in below],
}))
`;

const pointsOf = (space: SearchDimension[], count: number, from = 0): Point[] =>
  Array.from(
    { length: count },
    (_, i) => space.map((one, d) => dimensionValue(one, uniform(key(7, "test", d))(from + i))),
  );
const noise = uniform(key(3, "values"));

Deno.test("kernels, their weights and the split of runs are those of Optuna", async () => {
  // Of many equal values each has its own width, and numpy's order of equals is its own: those have no whole numbers.
  const ties = SPACE.filter(({ kind }) => kind !== "int");
  const cases = [[SPACE, 0], [SPACE, 1], [SPACE, 2], [SPACE, 9], [ties, 24], [ties, 26], [ties, 60]] as const;
  const asked = cases.map(([space, count]) => {
    const some = [...space];
    return { space: some, observed: pointsOf(some, count), candidates: pointsOf(some, 12, 100) };
  });
  const tried = Array.from({ length: 70 }, (_, i): TriedPoint => ({
    point: [i],
    state: i % 7 === 3 ? "running" : i % 3 === 0 ? "pruned" : "done",
    value: noise(i),
    step: 1 + i % 5,
  }));
  const question = { cases: asked, tried };
  const { densities, good } = await optuna<{ densities: number[][]; good: number[] }>(ASK_OPTUNA, question);

  asked.forEach(({ space, observed, candidates }, i) => {
    const ours = parzenOf(space, observed);
    candidates.forEach((candidate, j) =>
      assertAlmostEquals(logDensity(ours, candidate), densities[i][j], 1e-9)
    );
  });
  assertEquals(splitTried(tried).good.map(([i]) => i), good);
});

const TOY: SearchDimension[] = [
  range("float", "lr", 1e-6, 1, true),
  range("float", "decay", 1e-6, 1, true),
  range("float", "dropout", 0, 1, false),
  range("float", "epsilon", 1e-6, 1, true),
];
const toy = ([lr, decay, dropout, epsilon]: Point): number =>
  (Math.log10(lr) + 3) ** 2 + (Math.log10(decay) + 2) ** 2 + 9 * (dropout - 0.3) ** 2 +
  (Math.log10(epsilon) + 4) ** 2;

async function bestOf(kind: string, seed: number): Promise<number> {
  const search: Search = { kind, space: TOY, maxRuns: 30, seed, rungs: null };
  const tried: { words: string[]; state: "done"; value: number; step: number }[] = [];
  for (let i = 0; i < search.maxRuns; i++) {
    const words = await nextWords(search, i, tried);
    tried.push({ words, state: "done", step: 1, value: toy(words.map((word, d) => valueOf(TOY[d], word))) });
  }
  return Math.min(...tried.map(({ value }) => value));
}

Deno.test("TPE finds a better loss than random draws in 30 runs, for five seeds of five", async () => {
  const tpe = await Promise.all([0, 1, 2, 3, 4].map((seed) => bestOf("tpe", seed)));
  const random = await Promise.all([0, 1, 2, 3, 4].map((seed) => bestOf("random", seed)));
  assert(tpe.every((best, seed) => best < random[seed]), `${tpe}\n${random}`);
  const middle = (values: number[]) => values.toSorted((a, b) => a - b)[2];
  assert(middle(tpe) < middle(random) / 2, `${tpe}\n${random}`);
  assertEquals(await bestOf("tpe", 3), tpe[3]);
});

Deno.test("runs that failed or are under way drive TPE away from where they are", async () => {
  const [lr] = SPACE, search: Search = { kind: "tpe", space: [lr], maxRuns: 99, seed: 1, rungs: null };
  const tried = Array.from({ length: 30 }, (_, i) => {
    const exponent = -6 + 6 * i / 30, fails = exponent > -2;
    return {
      words: [String(10 ** exponent)],
      state: fails ? "failed" as const : "done" as const,
      value: fails ? null : -exponent, // the nearer to what fails, the better
      step: 1,
    };
  });
  const drawn: number[] = [];
  for (let i = 0; i < 20; i++) drawn.push(Number((await nextWords(search, 30 + i, tried))[0]));
  assert(drawn.filter((rate) => rate < 10 ** -1.7).length >= 18, drawn.join(" "));
  const waiting = Array.from(
    { length: 4 },
    () => ({ words: ["0.009"], state: "running" as const, value: null, step: 0 }),
  );
  const away = Number((await nextWords(search, 30, [...tried, ...waiting]))[0]);
  assert(Math.abs(Math.log10(away / 0.009)) > 0.05, `${away}`);
});
