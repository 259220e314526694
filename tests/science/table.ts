// A table as pyarrow writes it: floats, counts, categories, texts, and gaps in all of them.
import { succeed } from "../integration/program.ts";
import { writtenBy } from "../core/data/formats/written.ts";
import type { Case } from "./case.ts";

const SIZES = {
  small: { rows: [20_000, 4_000], flags: ["--epochs", "8"], better: 0.2, accuracy: 0.7 },
  full: { rows: [2_000_000, 200_000], flags: ["--epochs", "4"], better: 0.3, accuracy: 0.75 },
};

/**
 * Wells: what a pump yields depends on depth, rain, rock (a category, in codes) and age, not in a line. Its state is
 * a text with three values. A tenth of each feature is missing, and of the answers a twentieth.
 */
const WELLS = (train: number, test: number) => `
import pyarrow as pa, pyarrow.parquet as pq
YIELDS = r.normal(size=12)
def wells(file, n):
    depth, rain, slope = r.gamma(2.0, 20.0, n), r.normal(size=n), r.normal(size=n).astype("f4")
    rock, age = r.integers(0, 12, n), r.integers(0, 60, n).astype("i4")
    gain = np.sin(depth / 15) + 0.5 * rain * slope + (rock % 3 - 1) * rain - 0.02 * age
    health = gain + 0.2 * r.normal(size=n)
    state = np.array(["dry", "weak", "good"], dtype=object)[(health > -1.2).astype(int) + (health > 0.2)]
    gaps = lambda share: r.random(n) < share
    pq.write_table(pa.table({
        "depth": pa.array(depth, mask=gaps(0.1)), "rain": pa.array(rain, mask=gaps(0.1)),
        "slope": pa.array(slope, mask=gaps(0.1)), "age": pa.array(age, mask=gaps(0.1)),
        **{f"rock_{k}": pa.array((rock % 3 == k).astype("i1")) for k in range(3)},
        "yield": pa.array(gain + 0.1 * r.normal(size=n), mask=gaps(0.05)),
        "state": pa.array(state).dictionary_encode(),
    }), file, row_group_size=max(n // 4, 1), compression="zstd")
wells("train.parquet", ${train}); wells("test.parquet", ${test})
`;

/** A line through the same features, whose gaps are filled with means, is what the model has to beat. */
const CHECK = `
import pandas as pd
F = ["depth", "rain", "slope", "age", "rock_0", "rock_1", "rock_2"]
train, test = pd.read_parquet("train.parquet"), pd.read_parquet("test.parquet")
mean = train[F].mean()
x = lambda t: np.c_[t[F].fillna(mean).to_numpy(float), np.ones(len(t))]
known = train["yield"].notna()
line = np.linalg.lstsq(x(train[known]), train["yield"][known], rcond=None)[0]
y = test["yield"].to_numpy()
seen = ~np.isnan(y)
r2 = lambda p: 1 - ((y - p)[seen] ** 2).sum() / ((y[seen] - y[seen].mean()) ** 2).sum()
found, state = np.load("yield.npz"), np.load("state.npz")
p = found["prediction"].reshape(-1)
names = sorted(test["state"].unique())
truth = np.array([names.index(s) for s in test["state"]])
print(json.dumps({
    "order": int((found["id"] == np.arange(len(test))).all() and (state["id"] == np.arange(len(test))).all()),
    "targets": int(np.array_equal(found["target"].reshape(-1), y.astype("f4"), equal_nan=True) and (state["target"] == truth).all()),
    "line": r2(x(test) @ line), "r2": r2(p),
    "common": float(np.bincount(truth).max() / len(truth)), "accuracy": float((state["prediction"].argmax(1) == truth).mean()),
}))
`;

export const table: Case = {
  promise:
    "an mlp learns from a table with categories and gaps what a line can't, and predicts its rows in their order",
  async run(cwd, size) {
    const { rows: [train, test], flags, better, accuracy } = SIZES[size];
    writtenBy(cwd, WELLS(train, test));
    const features = "depth,rain,slope,age,rock_0,rock_1,rock_2";
    const run = async (target: string) => {
      const shared = ["--data-path", "train.parquet", "--features", features, "--targets", target];
      const model = [
        "--model",
        "mlp",
        "--hidden-size",
        "64",
        "--batch-size",
        "256",
        "--lr",
        "3e-3",
        ...flags,
      ];
      const missing = ["--missing", "mask", "--fill", "mean", "--normalise", "auto"];
      const quiet = [
        "--device",
        "cpu",
        "--no-wandb",
        "--quiet",
        ...(size === "small" ? ["--threads", "1"] : []),
      ];
      const options = { cwd, timeout: 7200 };
      await succeed([...shared, "--run-name", target, ...model, ...missing, ...quiet], options);
      const there = [`checkpoints/${target}_best.pt`, "--data-path", "test.parquet", "--on", "all"];
      const { metrics } = JSON.parse((await succeed(["eval", ...there, "--json"], options)).stdout);
      await succeed(["predict", ...there, "--out", `${target}.npz`], options);
      return metrics;
    };
    const yields = await run("yield"), states = await run("state");
    const found = writtenBy(cwd, CHECK);
    return [
      { what: "R2", value: found.r2, atLeast: found.line + better },
      { what: "R2 by numpy less eval's", value: Math.abs(found.r2 - yields.r2), atMost: 1e-5 },
      {
        what: "accuracy of the state",
        value: found.accuracy,
        atLeast: Math.max(found.common + better, accuracy),
      },
      {
        what: "accuracy by numpy less eval's",
        value: Math.abs(found.accuracy - states.accuracy),
        atMost: 1e-9,
      },
      { what: "predictions are as many as the rows, and in their order", value: found.order, atLeast: 1 },
      { what: "the targets in the files are the table's", value: found.targets, atLeast: 1 },
    ];
  },
};
