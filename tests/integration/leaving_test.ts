// A result leaves by `predict` and `export`: what the model was trained on comes from its checkpoint, and not from the data.
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { python } from "../core/checkpoint/python.ts";
import { askPeer } from "../peer.ts";
import { inTemp, run, succeed } from "./program.ts";

const QUICK = ["--device=cpu", "--threads=1", "--no-wandb", "--epochs=1", "--run-name=r"];
const FROM = "checkpoints/r_latest.pt";

/** A table whose target is far from zero, the same in another order, and the same without the target. */
const TABLE = `
import os, sys, numpy as np
os.chdir(sys.argv[1])
r = np.random.default_rng(0)
a, b = r.normal(size=(2, 64))
rows = np.stack([a, b, 3 * a - b + 50], 1)
write = lambda path, names, columns: np.savetxt(path, rows[:, columns], delimiter=",", header=names, comments="", fmt="%.6f")
write("table.csv", "a,b,c", [0, 1, 2]); write("turned.csv", "c,b,a", [2, 1, 0]); write("new.csv", "b,a", [1, 0])
`;

/** The program's own answers to the features, beside the predictions of each file. */
const ANSWERS = `
import os, sys, json, torch, numpy as np
os.chdir(sys.argv[1])
x = torch.from_numpy(np.loadtxt("table.csv", delimiter=",", skiprows=1)[:, :2].astype("f4"))
own = torch.export.load("r.pt2").module()(x).detach().numpy()
print(json.dumps([float(abs(np.load(p)["prediction"] - own).max()) for p in ("table.npz", "turned.npz", "new.npz")]))
`;

Deno.test("a table trained without naming its columns is exported without its data, and predicted by its columns' names", () =>
  inTemp(async (cwd) => {
    python(TABLE, cwd);
    await succeed([...QUICK, "--data-path=table.csv", "--hidden-size=8", "--batch-size=16"], { cwd });
    await succeed(["predict", FROM, "--all", "--out=table.npz"], { cwd });
    for (const name of ["turned", "new"]) {
      const data = [`--data-path=${name}.csv`, "--no-targets", `--out=${name}.npz`];
      await succeed(["predict", FROM, ...data], { cwd });
    }
    const judged = await succeed(["eval", FROM, "--data-path=turned.csv", "--on=all", "--json"], { cwd });
    assertEquals(JSON.parse(judged.stdout).samples, 64);
    Deno.renameSync(join(cwd, "table.csv"), join(cwd, "gone.csv"));
    const said = await succeed(["export", FROM, "r.pt2"], { cwd });
    assertStringIncludes(said.stdout, "Wrote mlp: 2-8-8-1");
    Deno.renameSync(join(cwd, "gone.csv"), join(cwd, "table.csv"));
    for (const apart of JSON.parse(python(ANSWERS, cwd))) assertEquals(apart < 1e-5, true, `${apart}`);
    const lost = await run(["export", FROM, "other.pt2", "--data-path=gone.csv"], { cwd });
    assertEquals(lost.code, 3); // whoever names data wants a model for it
  }));

const SAME_NUMBERS = `
import os, sys, json, numpy as np
os.chdir(sys.argv[1])
told, untold = np.load("told.npz"), np.load("untold.npz")
assert sorted(untold.files) == ["id", "prediction", "std"], untold.files
at = np.searchsorted(untold["id"], told["id"])
assert (untold["id"][at] == told["id"]).all() and len(untold["id"]) > len(told["id"])
print(json.dumps([float(abs(untold["prediction"][at] - told["prediction"]).max()), float(told["prediction"].mean())]))
`;

Deno.test("a forecast of several leads with normalised targets goes on where nobody has the targets, in their own units, and is exported", () =>
  inTemp(async (cwd) => {
    await askPeer("data/windows.py", cwd);
    python(
      `import sys, netCDF4
with netCDF4.Dataset(sys.argv[1] + "/maps.nc", "a") as d: d["ice"][:] = 3 * d["ice"][:] + 200`,
      cwd,
    );
    const data = [
      "--data-path=maps.nc",
      "--features=wind,ice",
      "--targets=ice",
      "--history=2",
      "--lead=1..3",
    ];
    const model = ["--model=unet", "--depth=1", "--width=4", "--normalise=measured", "--batch-size=8"];
    await succeed([...QUICK, ...data, ...model, "--normalise-targets", "--loss=gaussian_nll"], { cwd });
    Deno.copyFileSync(join(cwd, "maps.nc"), join(cwd, "now.nc"));
    const predict = ["predict", FROM, "--data-path=now.nc", "--threads=1"];
    await succeed([...predict, "--out=told.npz"], { cwd });
    await succeed([...predict, "--no-targets", "--out=untold.npz"], { cwd });
    const [apart, mean] = JSON.parse(python(SAME_NUMBERS, cwd));
    assertEquals([apart < 1e-2, Math.abs(mean - 200) < 30], [true, true], `${apart} ${mean}`);
    const wrong = await run([
      ...[...predict, "--no-targets", "--out=wrong.npz"],
      ...["--set", "data.target_mean=1,2", "--set", "data.target_std=1,2"],
    ], { cwd });
    assertEquals(wrong.code, 2);
    assertMatch(
      wrong.stderr,
      /data\.target_mean and data\.target_std have 2 numbers, and the model answers 3/,
    );
    assertStringIncludes((await succeed(["export", FROM, "r.onnx"], { cwd })).stdout, "unet");
  }));

Deno.test("what a checkpoint says of a rollout, of patches and of texts makes the same program as its data does", () =>
  inTemp(async (cwd) => {
    await askPeer("data/windows.py", cwd);
    const maps = ["--data-path=maps.nc", "--features=wind,ice", "--targets=ice", "--batch-size=8"];
    const unet = ["--model=unet", "--depth=1", "--width=4", "--normalise=measured"];
    Deno.writeTextFileSync(join(cwd, "text.txt"), "to be or not to be, that is the question. ".repeat(60));
    const cases = {
      rollout: [...maps, ...unet.slice(0, 3), "--lead=1", "--rollout=2", "--history=2"],
      patches: [...maps, ...unet, "--patch=4x4", "--lead=1", "--padding=circular"],
      text: [
        "--data-path=text.txt",
        "--model=gpt",
        "--layers=1",
        "--width=16",
        "--heads=2",
        "--context=16",
        "--batch-size=4",
      ],
    };
    for (const [name, flags] of Object.entries(cases)) {
      await succeed([...QUICK, ...flags, "--max-steps=1", `--run-name=${name}`], { cwd });
      const from = `checkpoints/${name}_latest.pt`, path = flags[0];
      await succeed(["export", from, `${name}-data.pt2`, path], { cwd });
      const file = path.split("=")[1];
      Deno.renameSync(join(cwd, file), join(cwd, `gone-${file}`));
      await succeed(["export", from, `${name}.pt2`], { cwd });
      Deno.renameSync(join(cwd, `gone-${file}`), join(cwd, file));
      const [own, withData] = [`${name}.pt2`, `${name}-data.pt2`].map((one) =>
        Deno.readFileSync(join(cwd, one))
      );
      assertEquals(
        own.length > 1000 && own.length === withData.length,
        true,
        `${name}: ${own.length}, ${withData.length}`,
      );
      assertEquals(own.every((byte, i) => byte === withData[i]), true, name);
    }
  }));
