// Models and losses for maps, from outside: train, go on, evaluate and predict on a grid that fits no power of two.
import { assert, assertAlmostEquals, assertEquals, assertStringIncludes } from "@std/assert";
import { openMpi } from "../mpi.ts";
import { python } from "../core/checkpoint/python.ts";
import { eventsOf, inTemp, run, succeed } from "./program.ts";
import { apart, numbers, tensors, trained, weightsApart } from "./ranks.ts";

/** Maps of 13 x 22: a field, what follows from it, and classes with pixels that nobody labelled. */
const DATA = `
import numpy, sys
rng = numpy.random.default_rng(1)
x = rng.normal(size=(24, 2, 13, 22)).astype("float32")
y = numpy.roll(x[:, :1], 1, axis=3) - x[:, 1:] + 0.1 * rng.normal(size=(24, 1, 13, 22)).astype("float32")
c = (y[:, 0] > 0.5).astype("int64") + (y[:, 0] > 1.5)
c[:, :, :5][rng.random((24, 13, 5)) < 0.5] = 3
c[3] = 3
numpy.savez(sys.argv[1] + "/maps.npz", x=x, y=y.astype("float32"), c=c)
print("null")
`;

const MAPS = [
  ...["--data-path=maps.npz", "--features=x", "--model=unet", "--width=4", "--threads=1", "--no-wandb"],
  ...["--batch-size=4", "--scheduler=constant", "--lr=1e-2", "--device=cpu", "--validation-split=0.25"],
  "--normalise=off",
];
const QUANTILES = [
  "--targets=y",
  "--loss=quantile",
  "--quantiles=0.1,0.5,0.9",
  "--padding=longitude",
  "--depth=2",
];

/** Python's unet with the run's weights, on the same samples. */
const PEER = `
import json, sys, numpy, torch
folder, examples = sys.argv[1:]
sys.path.insert(0, examples)
import zoo_models
data, own = numpy.load(folder + "/maps.npz"), torch.load(folder + "/checkpoints/r_latest.pt", weights_only=True)
model = zoo_models.unet(channels=2, filters=4, outputs=3, depth=2, padding="longitude")
model.load_state_dict(own["model_state_dict"])
model.eval()
got = numpy.load(folder + "/p.npz")
with torch.no_grad():
    want = model(torch.from_numpy(data["x"][got["id"]])).numpy()
e = data["y"][got["id"]] - want
q = numpy.array([0.1, 0.5, 0.9])[:, None, None]
print(json.dumps({
    "shape": list(got["prediction"].shape),
    "worst": float(abs(got["prediction"] - want).max()),
    "loss": float(numpy.maximum(q * e, (q - 1) * e).mean()),
    "mae": float(abs(e[:, 1]).mean()),
}))
`;

Deno.test("unet on 13 x 22 with quantiles: Python's unet predicts the same, eval says its loss, and a run that goes on is the run that never stopped", () =>
  inTemp(async (cwd) => {
    python(DATA, cwd);
    const train = (name: string, ...flags: string[]) =>
      succeed(["train", ...MAPS, ...QUANTILES, `--run-name=${name}`, ...flags], { cwd });
    await train("r", "--max-steps=8");
    await succeed(["predict", "checkpoints/r_latest.pt", "--out=p.npz"], { cwd });
    const examples = new URL("../../examples/python", import.meta.url).pathname;
    const found = JSON.parse(python(PEER, cwd, examples));
    assertEquals(found.shape, [6, 3, 13, 22]);
    assert(found.worst < 1e-5, `${found.worst}`);
    const { stdout } = await succeed(["eval", "checkpoints/r_latest.pt", "--json", "--threads=1"], { cwd });
    const { val_loss, metrics } = JSON.parse(stdout);
    assert(Math.abs(val_loss - found.loss) < 1e-6, `${val_loss} ${found.loss}`);
    assert(Math.abs(metrics.mae - found.mae) < 1e-6, `${metrics.mae} ${found.mae}`);

    await train("halves", "--max-steps=3");
    await succeed([
      ...["train", "--resume=checkpoints/halves_latest.pt", "--max-steps=8", "--threads=1"],
    ], { cwd });
    assertEquals(weightsApart(tensors(cwd, "r"), tensors(cwd, "halves")), 0);
  }));

/** Volumes, and a series of maps of which a mask is known. */
const DEEP_DATA = `
import numpy, sys
rng = numpy.random.default_rng(1)
v = rng.normal(size=(12, 1, 5, 9, 11)).astype("float32")
m = rng.normal(size=(20, 2, 7, 10)).astype("float32")
m[:, :, 0, 0] = numpy.nan
numpy.savez(sys.argv[1] + "/volumes.npz", x=v, y=v ** 2)
numpy.savez(sys.argv[1] + "/series.npz", x=m, y=m[:, :1])
print("null")
`;

const DEEP_PEER = `
import json, sys, numpy, torch
folder, examples = sys.argv[1:]
sys.path.insert(0, examples)
import zoo_models
def worst(name, model, inputs):
    data, got = numpy.load(f"{folder}/{name}.npz"), numpy.load(f"{folder}/{name}_p.npz")
    model.load_state_dict(torch.load(f"{folder}/checkpoints/{name}_latest.pt", weights_only=True)["model_state_dict"])
    with torch.no_grad():
        want = model.eval()(torch.from_numpy(inputs(data["x"], got["id"]))).numpy()
    assert want.shape == got["prediction"].shape, (want.shape, got["prediction"].shape)
    return float(abs(got["prediction"] - want).max())
def history(x, ids):
    steps = numpy.stack([x[ids + step] for step in (-2, -1, 0)], 1).reshape(len(ids), 6, 7, 10)
    seen = numpy.isfinite(steps).all(1, keepdims=True).astype("float32")
    return numpy.concatenate([numpy.nan_to_num(steps), seen], 1)
everything = dict(dims=3, attention="gates", residual=True)
print(json.dumps([
    worst("volumes", zoo_models.unet(channels=1, filters=4, outputs=1, depth=1, **everything), lambda x, ids: x[ids]),
    worst("series", zoo_models.convlstm(channels=7, steps=3, filters=4, layers=1, outputs=2), history),
]))
`;

Deno.test("unet learns volumes with gates and residual blocks, and convlstm a history with its mask: Python's models predict the same", () =>
  inTemp(async (cwd) => {
    python(DEEP_DATA, cwd);
    const common = MAPS.filter((flag) => !/data-path|model/.test(flag));
    const train = async (name: string, ...flags: string[]) => {
      const files = [`--data-path=${name}.npz`, `--run-name=${name}`, "--targets=y", "--max-steps=4"];
      await succeed(["train", ...common, ...files, "--loss=mse", ...flags], { cwd });
      await succeed(["predict", `checkpoints/${name}_latest.pt`, `--out=${name}_p.npz`], { cwd });
    };
    await train("volumes", "--model=unet", "--depth=1", "--residual", "--attention=gates");
    await train("series", "--model=convlstm", "--layers=1", "--history=3", "--lead=1,2", "--mask-channel");
    const examples = new URL("../../examples/python", import.meta.url).pathname;
    for (const worst of JSON.parse(python(DEEP_PEER, cwd, examples))) assert(worst < 1e-5, `${worst}`);
  }));

for (
  const [what, flags] of [
    ["weighted classes", ["--loss=cross_entropy", "--class-weights=1,4,2"]],
    ["dice", ["--loss=dice"]],
  ] as const
) {
  Deno.test(`${what} of maps with unlabelled pixels and an unlabelled map: 2 ranks that accumulate have the losses and weights of one`, () =>
    inTemp(async (cwd) => {
      python(DATA, cwd);
      const all = [
        ...MAPS.filter((flag) => !flag.startsWith("--batch-size")),
        ...["--targets=c", "--set=training.ignore_index=3", "--max-steps=5", "--optimizer=sgd", "--depth=1"],
        ...["--global-batch-size=8", "--model=net.ts", ...flags],
      ];
      Deno.writeTextFileSync(`${cwd}/net.ts`, WITHOUT_NORM);
      const mpi = openMpi();
      await trained(cwd, "one", 1, [...all, "--batch-size=8"], { mpi });
      await trained(cwd, "two", 2, [...all, "--batch-size=2"], { mpi });
      const losses = apart(numbers(cwd, "one"), numbers(cwd, "two"));
      const weights = weightsApart(tensors(cwd, "one"), tensors(cwd, "two"));
      assert(losses < 1e-5 && weights < 1e-5, `${losses} ${weights}`);
      const last = eventsOf(cwd, "one").findLast(({ kind }) => kind === "eval");
      const metrics = last?.metrics as Record<string, number>;
      assert(metrics.mean_iou > 0 && metrics.accuracy > 0, JSON.stringify(metrics));
    }));
}

/** Batch norm sees a batch as it is cut: this model has none. */
const WITHOUT_NORM = `
export default ({ nn, ops }) => {
  class Net extends nn.Module {
    constructor() {
      super();
      this.first = this.child("first", new nn.Conv2d(2, 6, 3, { padding: 1, paddingMode: "circular" }));
      this.last = this.child("last", new nn.Conv2d(6, 3, 1));
    }
    forward(x) {
      return this.last.forward(ops.relu(this.first.forward(x)));
    }
  }
  return new Net();
};
`;

Deno.test("--class-weights auto is scikit-learn's balanced, and eval of other data judges with the same", () =>
  inTemp(async (cwd) => {
    python(DATA, cwd);
    const train = (name: string, weights: string) =>
      succeed([
        ...["train", ...MAPS, "--targets=c", "--set=training.ignore_index=3", "--max-steps=2", "--depth=1"],
        ...[`--run-name=${name}`, `--class-weights=${weights}`],
      ], { cwd });
    const { stdout } = await train("r", "auto");
    await succeed(["predict", "checkpoints/r_latest.pt", "--out=p.npz"], { cwd });
    const own = JSON.parse(python(BALANCED, cwd));
    assertStringIncludes(stdout, `Class weights ${own.weights} (--class-weights auto)`);
    await train("given", own.exact.join());
    const losses = ["r", "given"].map(async (name) => {
      const few = ["--data-path=few.npz", "--validation-split=0.5", "--json", "--threads=1"];
      const { stdout } = await succeed(["eval", `checkpoints/${name}_latest.pt`, ...few], { cwd });
      return JSON.parse(stdout).val_loss as number;
    });
    const [measured, given] = await Promise.all(losses);
    assertAlmostEquals(measured, given, 1e-6);
  }));

/** The labels of the run's own training samples; and a file in which classes have other shares. */
const BALANCED = `
import json, sys, numpy
from sklearn.utils.class_weight import compute_class_weight
data = numpy.load(sys.argv[1] + "/maps.npz")
numpy.savez(sys.argv[1] + "/few.npz", x=data["x"][:8], y=data["y"][:8], c=numpy.where(data["c"][:8] == 2, 0, data["c"][:8]))
val = set(numpy.load(sys.argv[1] + "/p.npz")["id"].tolist())
labels = numpy.concatenate([data["c"][i].ravel() for i in range(24) if i not in val])
weights = compute_class_weight("balanced", classes=numpy.arange(3), y=labels[labels != 3])
print(json.dumps({"weights": ", ".join(f"{w:#.3g}" for w in weights), "exact": weights.tolist()}))
`;

Deno.test("what maps do not allow is said before the first step", () =>
  inTemp(async (cwd) => {
    python(DATA, cwd);
    const refused = async (...flags: string[]) => {
      const { code, stderr } = await run(["train", ...MAPS, "--targets=y", ...flags], { cwd });
      assertEquals(code, 2, stderr);
      return stderr;
    };
    assertStringIncludes(await refused("--depth=6"), "set --depth to 4 or less");
    assertStringIncludes(await refused("--loss=dice"), "the loss dice needs classes");
  }));
