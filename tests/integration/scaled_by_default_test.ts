// Inputs and targets of odd scales, as a newcomer has them: learnt as they come, and in their own units wherever they go.
import { assert, assertAlmostEquals, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { python } from "../core/checkpoint/python.ts";
import { openMpi } from "../mpi.ts";
import { launch } from "./launches.ts";
import { eventsOf, inTemp, run, succeed } from "./program.ts";
import { assertSentence, sentenceNamed } from "../sentences.ts";

/** Temperatures of 280 with a spread of 15, and a target of mean 100. */
const TABLES = `
import os, sys, numpy as np
os.chdir(sys.argv[1])
r = np.random.default_rng(0)
n = int(sys.argv[2])
t, h, p = 280 + 15 * r.normal(size=n), 50 + 20 * r.random(n), 1013 + 8 * r.normal(size=n)
later = 0.9 * t + 3 * np.sin(h / 5) + 0.5 * (p - 1013) + r.normal(size=n) + 20
x = r.normal(size=(n, 4))
y = 100 + 5 * x[:, 0] - 3 * x[:, 1] * x[:, 2] + 0.5 * r.normal(size=n)
np.savetxt("temperatures.csv", np.c_[t, h, p, later], "%.4f", ",", header="t,h,p,later", comments="")
np.savetxt("hundred.csv", np.c_[x, y], "%.4f", ",", header="a,b,c,d,y", comments="")
print("null")
`;

const ONE_LINE = sentenceNamed("integration/scaled_by_default: inputs targets scaled mean");
const MLP = ["--model=mlp", "--no-wandb", "--threads=1", "--device=cpu"];
const r2Of = (cwd: string, name: string) => {
  const [last] = eventsOf(cwd, name).filter(({ kind }) => kind === "epoch").slice(-1);
  return (last.val_metrics as Record<string, number>).r2;
};

Deno.test("temperatures of 280 with a spread of 15 and a target of mean 100 are learnt as they come, in 3 epochs", () =>
  inTemp(async (cwd) => {
    python(TABLES, cwd, "20000");
    for (const name of ["temperatures", "hundred"]) {
      const flags = [`--data-path=${name}.csv`, ...MLP, "--epochs=3"];
      const { stdout } = await succeed([...flags, `--run-name=${name}`], { cwd });
      assert(r2Of(cwd, name) > 0.9, `${name}: ${r2Of(cwd, name)}`);
      assertStringIncludes(stdout, ONE_LINE);
      assertMatch(stdout, /^\[Epoch 3\/3\] Loss: \S+ \(scaled\) \| .* \| Val Loss: \S+ \(scaled\) \|/m);
      assertMatch(stdout, /Best Val Loss: \S+ \(scaled\) at epoch/);
      assertMatch(stdout, /^Training loss: \S+ \(scaled\) as the mean/m);
      const off = await succeed([...flags, "--normalise=off", `--run-name=${name}-off`], { cwd });
      assert(r2Of(cwd, `${name}-off`) < r2Of(cwd, name), `${r2Of(cwd, `${name}-off`)}`);
      assert(!off.stdout.includes("scaled to mean") && !off.stdout.includes("(scaled)"), off.stdout);
    }
  }));

/** Programs and predictions of the same rows, beside the data's own targets. */
const ANSWERS = `
import os, sys, json, numpy as np
os.chdir(sys.argv[1])
rows = np.loadtxt("temperatures.csv", delimiter=",", skiprows=1, dtype="f4")
p = np.load("p.npz")
x = rows[p["id"], :3]
import torch
made = torch.export.load("p.pt2").module()(torch.from_numpy(x)).detach().numpy()
print(json.dumps({
    "worst": float(abs(made.reshape(-1) - p["prediction"].reshape(-1)).max()),
    "targets": float(abs(p["target"].reshape(-1) - rows[p["id"], 3]).max()),
    "mean": float(p["prediction"].mean()),
}))
`;
const FIGURES = `
import os, sys, json, numpy as np, torch
os.chdir(sys.argv[1])
rows = np.loadtxt("temperatures.csv", delimiter=",", skiprows=1, dtype="f4")[:900].astype("f8")
saved = torch.load("checkpoints/r_latest.pt", weights_only=False)
own, data = saved["hpctrain"], saved["config"]["data"]
print(json.dumps({
    "settings": [data["normalise"], data["normalise_targets"]],
    "inputs": np.abs(np.array(own["normalisation"]["mean"]) - rows[:, :3].mean(0)).max(),
    "spreads": np.abs(np.array(own["normalisation"]["std"]) - rows[:, :3].std(0)).max(),
    "targets": abs(own["target_normalisation"]["mean"][0] - rows[:, 3].mean()),
}))
`;
const TIMES = [
  "--data-path=temperatures.csv",
  ...MLP,
  "--split=time",
  "--validation-split=0.1",
  "--scheduler=constant",
];

Deno.test("the choice and the figures of the training rows are in the checkpoint; eval, predict and programs are in the data's units", () =>
  inTemp(async (cwd) => {
    python(TABLES, cwd, "1000");
    await succeed([...TIMES, "--epochs=8", "--lr=1e-2", "--run-name=r"], { cwd });
    const { settings, inputs, spreads, targets } = JSON.parse(python(FIGURES, cwd));
    assertEquals(settings, ["measured", "on"]);
    assert(inputs < 1e-4 && spreads < 1e-4 && targets < 1e-4, `${inputs} ${spreads} ${targets}`);
    await succeed(["predict", "checkpoints/r_latest.pt", "--out=p.npz"], { cwd });
    await succeed(["export", "checkpoints/r_latest.pt", "p.pt2"], { cwd });
    const answer = JSON.parse(python(ANSWERS, cwd));
    assert(answer.worst < 1e-2, `${answer.worst}`);
    assertEquals(answer.targets, 0); // to the bit: they are not scaled and brought back
    assertAlmostEquals(answer.mean, 272, 5);
    const { stdout } = await succeed(["eval", "checkpoints/r_latest.pt"], { cwd });
    assertMatch(stdout, /^Val Loss: \S+ \(scaled\) \| /m);
    const { metrics } = JSON.parse(
      (await succeed(["eval", "checkpoints/r_latest.pt", "--json"], { cwd })).stdout,
    );
    assert(metrics.r2 > 0.9 && metrics.rmse > 0.5 && metrics.rmse < 5, JSON.stringify(metrics));
  }));

Deno.test("a run that goes on keeps its choice and its figures, also where a file of settings says auto", () =>
  inTemp(async (cwd) => {
    python(TABLES, cwd, "1000");
    await succeed([...TIMES, "--run-name=whole", "--max-steps=20"], { cwd });
    await succeed([...TIMES, "--run-name=r", "--max-steps=10"], { cwd });
    Deno.writeTextFileSync(join(cwd, "s.yaml"), "data:\n  normalise: auto\n  normalise_targets: auto\n");
    const on = ["--resume=checkpoints/r_latest.pt", "--threads=1"];
    const { stdout } = await succeed(["--config=s.yaml", ...on, "--max-steps=20"], { cwd });
    assertSentence("integration/scaled_by_default: inputs targets scaled", stdout);
    assert(!stdout.includes("Changed since the checkpoint: data"), stdout);
    const same = (name: string) => eventsOf(cwd, name).filter(({ kind }) => kind === "step").at(-1)!.loss;
    assertEquals(same("r"), same("whole"));
    const refused = await run([...on, "--max-steps=30", "--normalise=off"], { cwd });
    assertEquals(refused.code, 8);
    assertStringIncludes(refused.stderr, "data.normalise measured -> none");
  }));

/** As a version without the choice wrote it. */
const OLDER = `
import os, sys, torch
os.chdir(sys.argv[1])
path = "checkpoints/old_latest.pt"
saved = torch.load(path, weights_only=False)
saved["config"]["data"].update(normalise="auto", normalise_targets=False)
torch.save(saved, path)
print("null")
`;

Deno.test("a checkpoint from before the choice goes on unscaled, and its weights begin so", () =>
  inTemp(async (cwd) => {
    python(TABLES, cwd, "1000");
    const plain = ["--normalise=usual", "--no-normalise-targets"];
    await succeed([...TIMES, "--max-steps=20", "--run-name=whole", ...plain], { cwd });
    await succeed([...TIMES, "--max-steps=10", "--run-name=old", ...plain], { cwd });
    python(OLDER, cwd);
    const before = eventsOf(cwd, "whole").filter(({ kind }) => kind === "step").at(-1)!.loss;
    const own = ["--data-path=temperatures.csv", "--lr=3e-4"]; // a job script says its flags again
    const { stdout, stderr } = await succeed([
      ...own,
      ...["--resume=checkpoints/old_latest.pt", "--max-steps=20", "--threads=1"],
    ], { cwd });
    assert(
      !/are scaled|are normalised|\(scaled\)/.test(stdout) && !stderr.includes("hardly"),
      stdout + stderr,
    );
    assertEquals(eventsOf(cwd, "old").filter(({ kind }) => kind === "step").at(-1)!.loss, before);
    const next = await succeed([
      ...[...TIMES, "--init-from=checkpoints/old_latest.pt", "--max-steps=1", "--run-name=next"],
    ], { cwd });
    assert(!/are scaled|\(scaled\)/.test(next.stdout), next.stdout);
    assertMatch(next.stderr, /Input t of \S*temperatures\.csv has mean 2[78]\d.*--normalise measured/);
    assertMatch(next.stderr, /Target later of \S*temperatures\.csv has mean 27\d.*--normalise-targets/);
  }));

const PROGRAM = `
import os, sys, torch
os.chdir(sys.argv[1])
torch.manual_seed(0)
class Own(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.f = torch.nn.Linear(3, 1)
    def forward(self, x, y=None):
        out = self.f(x)
        return out if y is None else {"out": out, "loss": ((out - y) ** 2).mean()}
x, y = torch.randn(4, 3), torch.randn(4, 1)
batch = torch.export.Dim("batch", min=2)
torch.export.save(torch.export.export(Own(), (x,), dynamic_shapes=({0: batch}, )), "own.pt2")
torch.export.save(torch.export.export(Own(), (x, y), dynamic_shapes=({0: batch}, {0: batch})), "loss.pt2")
print("null")
`;
const TYPESCRIPT = `export default ({ nn }) => {
  class Net extends nn.Module {
    f = this.child("f", new nn.Linear(3, 1));
    forward(x) {
      return this.f.forward(x);
    }
  }
  return new Net();
};
`;

Deno.test("models of one's own are not scaled unasked: the losses are those of --normalise off, and a warning names column and flag", () =>
  inTemp(async (cwd) => {
    python(TABLES, cwd, "600");
    python(PROGRAM, cwd);
    Deno.writeTextFileSync(join(cwd, "own.ts"), TYPESCRIPT);
    for (const model of ["own.pt2", "loss.pt2", "own.ts"]) {
      const train = (name: string, ...flags: string[]) =>
        succeed([
          ...[
            "--data-path=temperatures.csv",
            `--model=${model}`,
            "--no-wandb",
            "--threads=1",
            "--device=cpu",
          ],
          ...["--lr=1e-6", "--max-steps=4", "--log-interval=1", `--run-name=${name}`, ...flags],
        ], { cwd });
      const name = model.replace(".", "-");
      const { stdout, stderr } = await train(name), quiet = await train(`${name}-off`, "--normalise=off");
      assert(!/are scaled|are normalised/.test(stdout), stdout);
      assertMatch(stderr, /Input t of \S*temperatures\.csv has mean 2[78]\d.*--normalise measured/, model);
      assertMatch(stderr, /Target later of \S*temperatures\.csv has mean 27\d.*--normalise-targets/, model);
      assert(!quiet.stderr.includes("hardly learns"), quiet.stderr);
      const losses = (of: string) =>
        eventsOf(cwd, of).filter(({ kind }) => kind === "step").map(({ loss }) => loss);
      assertEquals(losses(name), losses(`${name}-off`), model);
      assertEquals(losses(name).length, 4);
    }
  }));

const FIGURES_OF = `
import os, sys, json, torch
os.chdir(sys.argv[1])
own = [torch.load(f"checkpoints/{n}_latest.pt", weights_only=False)["hpctrain"] for n in ("one", "two")]
print(json.dumps([[o["normalisation"], o["target_normalisation"]] for o in own]))
`;

Deno.test("two ranks scale by the same figures of all training rows as one", () =>
  inTemp(async (cwd) => {
    python(TABLES, cwd, "600");
    const flags = ["--data-path=temperatures.csv", ...MLP, "--max-steps=2"];
    await succeed([...flags, "--run-name=one"], { cwd });
    const { code, stdout, stderr } = await launch(cwd, openMpi(), [
      ...["-n", "2", "--", ...flags, "--run-name=two"],
    ]).result;
    assertEquals(code, 0, stderr);
    assertStringIncludes(stdout, ONE_LINE);
    const [one, two] = JSON.parse(python(FIGURES_OF, cwd));
    assertEquals(two, one);
  }));

const MIXED = `
import os, sys, json, numpy as np
os.chdir(sys.argv[1])
one, two, both = (np.load(n + ".npz") for n in ("p1", "p2", "both"))
mean = (one["prediction"].astype("f8") + two["prediction"]) / 2
print(json.dumps({"worst": float(abs(both["prediction"] - mean).max()), "apart": float(abs(one["prediction"] - two["prediction"]).max())}))
`;

Deno.test("members of an ensemble that were trained on other folds answer in one scale", () =>
  inTemp(async (cwd) => {
    python(TABLES, cwd, "600");
    for (const fold of ["1", "2"]) {
      const part = ["--split=time", "--folds=2", `--fold=${fold}`];
      await succeed([
        ...[
          "--data-path=temperatures.csv",
          ...MLP,
          "--epochs=2",
          "--lr=1e-2",
          `--run-name=f${fold}`,
          ...part,
        ],
      ], { cwd });
      await succeed(["predict", `checkpoints/f${fold}_latest.pt`, "--all", `--out=p${fold}.npz`], { cwd });
    }
    await succeed([
      ...["predict", "checkpoints/f1_latest.pt", "checkpoints/f2_latest.pt", "--all", "--out=both.npz"],
    ], { cwd });
    const { worst, apart } = JSON.parse(python(MIXED, cwd));
    assert(apart > 0.01 && worst < 1e-3, `${apart} ${worst}`);
  }));

const MAPS = `
import os, sys, numpy as np
os.chdir(sys.argv[1])
r = np.random.default_rng(2)
x = (280 + 15 * r.normal(size=(60, 2, 6, 8))).astype("f4")
y = 100 + 5 * (x[:, :1] - 280) + r.normal(size=(60, 1, 6, 8))
np.savez("maps.npz", x=x, y=y.astype("f4"))
print("null")
`;
const PARTS = `
import os, sys, json, numpy as np
os.chdir(sys.argv[1])
p = np.load("p.npz")
x = np.load("maps.npz")["x"][p["id"]]
given = np.concatenate([x, np.ones_like(x[:, :1])], 1)
import torch
made = torch.export.load("p.pt2").module()(torch.from_numpy(given)).detach().numpy()
print(json.dumps({
    "mean": float(abs(made[:, :1] - p["prediction"]).max()),
    "std": float(abs(np.exp(made[:, 1:] / 2) - p["std"]).max()),
}))
`;

Deno.test("programs have all that stands before and behind: --scaling, the mask's channel as it is, and a variance's logarithm", () =>
  inTemp(async (cwd) => {
    python(MAPS, cwd);
    await succeed([
      ...["--data-path=maps.npz", "--targets=y", "--model=unet", "--width=4", "--depth=1", "--mask-channel"],
      ...[
        "--loss=gaussian_nll",
        "--scaling=log",
        "--softening=50",
        "--epochs=3",
        "--batch-size=8",
        "--run-name=m",
      ],
      ...["--no-wandb", "--threads=1", "--device=cpu"],
    ], { cwd });
    await succeed(["predict", "checkpoints/m_latest.pt", "--out=p.npz"], { cwd });
    await succeed(["export", "checkpoints/m_latest.pt", "p.pt2"], { cwd });
    const { mean, std } = JSON.parse(python(PARTS, cwd));
    assert(mean < 1e-2 && std < 1e-2, `${mean} ${std}`);
    const { stdout } = await succeed(["export", "checkpoints/m_latest.pt", "m.pt"], { cwd });
    assertStringIncludes(stdout, "Weights scale nothing");
  }));

Deno.test("the report's table of examples is in the data's own units", () =>
  inTemp(async (cwd) => {
    python(TABLES, cwd, "600");
    await succeed([...TIMES, "--epochs=1", "--run-name=r"], { cwd });
    const { examples } = JSON.parse(Deno.readTextFileSync(join(cwd, "logs/r/diagnostics.json")));
    assert(examples.length > 0);
    for (const { target: [target], prediction: [prediction] } of examples) {
      assert(Math.abs(target - 272) < 80 && Math.abs(prediction - 272) < 80, `${target} ${prediction}`);
    }
  }));
