// `hpctrain predict` beside Python: the same weights say the same of the same samples, in every kind of file.
import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { python } from "../core/checkpoint/python.ts";
import { hpctrainMlp } from "./predict_peer.ts";
import { inTemp, run as hpctrain, succeed } from "./program.ts";

const DATA = `
import numpy, os, sys
os.chdir(sys.argv[1])
rng = numpy.random.default_rng(1)
def table(path, shift, samples):
    x = rng.normal(shift, 1 + shift, (samples, 3)).astype("float32")
    y = (x @ numpy.array([1.0, -2.0, 0.5], "float32"))[:, None] + 1
    c = (x.sum(1) > shift * 3).astype("int64") + (x[:, 0] > shift).astype("int64")
    numpy.savez(path + ".npz", x=x, y=y)
    numpy.savez(path + "_classes.npz", x=x, c=c)
table("a", 0.0, 200); table("b", 5.0, 37)
print("null")
`;
const TRAIN = [
  "--model=mlp",
  "--hidden-size=8",
  "--device=cpu",
  "--epochs=2",
  "--threads=1",
  "--normalise=measured",
  "--no-wandb",
];

Deno.test("other data is seen through the figures of the run's own, and every sample is there once, in its order", () =>
  inTemp(async (cwd) => {
    python(DATA, cwd);
    await succeed(["train", ...TRAIN, "--data-path=a.npz", "--features=x", "--targets=y", "--run-name=r"], {
      cwd,
    });
    for (const out of ["p.npz", "p.csv", "p.nc"]) {
      await succeed(["predict", "checkpoints/r_latest.pt", "--data-path=b.npz", `--out=${out}`], { cwd });
    }
    const files = hpctrainMlp(cwd, "b.npz", ["p.npz", "p.csv", "p.nc"]);
    for (const { ids, worst, targets } of files) {
      assertEquals(ids, Array.from({ length: 37 }, (_, i) => i));
      assert(worst < 1e-5, `${worst}`);
      assert(targets < 1e-5, `${targets}`);
    }
  }));

Deno.test("without other data the samples to validate with are predicted, and with --all those to train with too, by their place in the file", () =>
  inTemp(async (cwd) => {
    python(DATA, cwd);
    await succeed([
      "train",
      ...TRAIN,
      "--data-path=a.npz",
      "--features=x",
      "--targets=y",
      "--validation-split=0.2",
      "--run-name=r",
    ], { cwd });
    await succeed(["predict", "checkpoints/r_latest.pt", "--out=val.npz"], { cwd });
    await succeed(["predict", "checkpoints/r_latest.pt", "--data-path=./a.npz", "--out=same.npz"], { cwd });
    await succeed(["predict", "checkpoints/r_latest.pt", "--all", "--out=all.npz"], { cwd });
    const [val, all, same] = hpctrainMlp(cwd, "a.npz", ["val.npz", "all.npz", "same.npz"]);
    assertEquals(val.ids.length, 40);
    assertEquals(same.ids, val.ids); // its own data, by another spelling
    assertEquals(all.ids, Array.from({ length: 200 }, (_, i) => i));
    for (const { worst, targets } of [val, all]) {
      assert(worst < 1e-5 && targets < 1e-5, `${worst} ${targets}`);
    }
  }));

Deno.test("of classes the likeliest is told, and how likely it is", () =>
  inTemp(async (cwd) => {
    python(DATA, cwd);
    await succeed([
      "train",
      ...TRAIN,
      "--data-path=a_classes.npz",
      "--features=x",
      "--targets=c",
      "--run-name=r",
    ], { cwd });
    await succeed(["predict", "checkpoints/r_latest.pt", "--data-path=b_classes.npz", "--out=p.npz"], {
      cwd,
    });
    const [found] = hpctrainMlp(cwd, "b_classes.npz", ["p.npz"]);
    assert(found.worst < 1e-5, `${found.worst}`);
    assertEquals(found.labels, 0); // that differ from Python's
    assertAlmostEquals(found.probability, 0, 1e-5);
  }));

Deno.test("what can't be predicted or written is told in a sentence", () =>
  inTemp(async (cwd) => {
    await succeed([
      "train",
      "--model=mlp",
      "--train-samples=64",
      "--val-samples=0",
      "--epochs=1",
      "--device=cpu",
      "--run-name=r",
    ], { cwd });
    const refused = async (...argv: string[]) => {
      const { code, stderr } = await hpctrain(["predict", ...argv], { cwd });
      assert(code === 2 || code === 3, stderr);
      return stderr;
    };
    const path = "checkpoints/r_latest.pt";
    assertMatch(await refused(), /Which checkpoint/);
    assertMatch(await refused(path), /Where should the predictions go/);
    assertMatch(await refused(path, "--out=p.xlsx"), /should end in \.npz, \.csv, \.parquet, \.nc/);
    assertMatch(await refused(path, "--out=p.csv"), /no validation data: give --all/);
    Deno.writeTextFileSync(`${cwd}/p.csv`, "mine\n");
    assertMatch(await refused(path, "--all", "--out=p.csv"), /exists already/);
    assertEquals(Deno.readTextFileSync(`${cwd}/p.csv`), "mine\n");
  }));
