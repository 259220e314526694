// Samples as functions of seed, role and number: nothing else may change a bit of them.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { simulation, type SimulationSpec, usual } from "../options.ts";
import { COSMOLOGY_PRIOR, drawer, PARAMETERS, type SampleRole } from "../simulation.ts";
import { UserError } from "../../../core/base/errors.ts";
import { setThreads, threads } from "../../../ffi/context.ts";
import { liveTensors } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../../tests/libtorch.ts";
import { meanOf } from "./measure.ts";

useLibtorch();

const spec = (kind: "2lpt" | "des", changes: Record<string, unknown> = {}, seed = 1) =>
  ({ kind, seed, values: { ...usual(kind), grid: 32, ...changes } }) as SimulationSpec;

function sample(of: SimulationSpec, role: SampleRole, i: number) {
  const { shape, targets, make } = simulation(of);
  const maps = new Float32Array(shape[0] * shape[1] * shape[2]),
    parameters = new Float32Array(targets.length);
  make(role, i, maps, parameters);
  return { maps, parameters };
}

function correlation(a: Float32Array, b: Float32Array): number {
  const [x, y] = [a, b].map((values) => {
    const mean = meanOf(values);
    return values.map((value) => value - mean);
  });
  return meanOf(x.map((value, i) => value * y[i])) / Math.sqrt(meanOf(x, 2) * meanOf(y, 2));
}

for (const kind of ["2lpt", "des"] as const) {
  Deno.test(`${kind}: the number of threads, and what was made before, change no bit`, () => {
    const before = threads();
    try {
      const wide = spec(kind, { grid: 64 });
      const found = [1, 2, 3].map((count) => {
        setThreads(count);
        return sample(wide, "train", 4);
      });
      assertEquals(found[1], found[0]);
      assertEquals(found[2], found[0]);
    } finally {
      setThreads(before);
    }
    const first = sample(spec(kind), "train", 7);
    sample(spec(kind), "val", 1);
    assertEquals(sample(spec(kind), "train", 7), first);
  });

  Deno.test(`${kind}: seed, role and number each give other parameters, and another field`, () => {
    // Parameters as good as fixed, so that only the fields differ; and nothing that is the same in all surveys.
    const fixed = ["omega_m=0.3", "omega_b=0.05", "h=0.7", "n_s=0.96", "sigma_8=0.8..0.80001"];
    const changes = { prior: fixed, ...(kind === "des" ? { masked: 0, ellipticity: 0 } : {}) };
    const found = ([[1, "train", 3], [1, "val", 3], [1, "train", 4], [2, "train", 3]] as const)
      .map(([seed, role, i]) => sample(spec(kind, changes, seed), role, i));
    assertEquals(new Set(found.map(({ parameters }) => parameters[0])).size, 4);
    for (const { maps } of found.slice(1)) {
      const likeness = correlation(maps, found[0].maps);
      assert(Math.abs(likeness) < 0.6, String(likeness));
    }
  });

  Deno.test(`${kind}: making a sample leaves no tensor behind`, () => {
    sample(spec(kind), "train", 0);
    const before = liveTensors();
    sample(spec(kind), "train", 1);
    assertEquals(liveTensors(), before);
  });
}

Deno.test("parameters are uniform over the prior, and independent", () => {
  const count = 3000, at = drawer(COSMOLOGY_PRIOR, 1, "2lpt", "train");
  const drawn = Array.from({ length: count }, (_, i) =>
    at(i).map((value, j) => {
      const [low, high] = COSMOLOGY_PRIOR[PARAMETERS[j]];
      assert(value >= low && value <= high);
      return (value - low) / (high - low);
    }));
  for (let j = 0; j < 5; j++) {
    for (let k = 0; k <= j; k++) {
      const moment = drawn.reduce((sum, row) => sum + (row[j] - 0.5) * (row[k] - 0.5) * 12, 0) / count;
      assert(Math.abs(moment - (j === k ? 1 : 0)) < 4.5 / Math.sqrt(count), `${j} ${k}: ${moment}`);
    }
  }
});

Deno.test("what a spec can't mean is refused", () => {
  const refused = (kind: "2lpt" | "des", changes: Record<string, unknown>, words: string) => {
    assert(assertThrows(() => simulation(spec(kind, changes)), UserError).message.includes(words), words);
  };
  refused("2lpt", { grid: 500 }, "A grid of 500 cells");
  refused("2lpt", { maps: 3 }, "can't be cut into 3 slabs");
  refused("des", { targets: ["sigma_9"] }, 'Did you mean "sigma_8"?');
  refused("des", { prior: ["h=0.9..0.6"] }, "the lower bound first");
  refused("des", { prior: ["h:0.6"] }, "write NAME=LOW..HIGH");
  refused(
    "des",
    { prior: PARAMETERS.map((name) => `${name}=${COSMOLOGY_PRIOR[name][0]}`) },
    "fixes all parameters",
  );
});
