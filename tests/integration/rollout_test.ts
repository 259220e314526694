// A model that goes by its own predictions: in evaluation, prediction and training what torch computes step by step,
// the gradient through all steps, on one rank and on two.
import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { readDiagnostics } from "../../core/run/diagnostics.ts";
import { python } from "../core/checkpoint/python.ts";
import { askPeer } from "../peer.ts";
import { eventsOf, inTemp, run, succeed } from "./program.ts";

/** Points of maps.nc: two steps of wind (from the data), ice (fed) and the latitude; each normalised by its own. */
const PEER = `
import json, os, sys, numpy as np, torch, netCDF4
os.chdir(sys.argv[1])
d = netCDF4.Dataset("maps.nc"); wind, ice = (torch.tensor(np.asarray(d[n][:])) for n in ("wind", "ice"))
lat = torch.tensor(np.asarray(d["lat"][:]))[:, None].expand(5, 6)
H, K = 2, 3
def load(name): return torch.load(f"checkpoints/{name}_latest.pt", weights_only=True)
def rolled(w, stats, ids, steps=K):
    mean, std = (torch.tensor(stats[k], dtype=torch.float32) for k in ("mean", "std"))
    t, p = torch.tensor(ids) // 30, torch.tensor(ids) % 30
    at = lambda field, k: field.reshape(48, 30)[t + k, p]
    known, out = {k: at(ice, k) for k in range(1 - H, 1)}, []
    for s in range(steps):
        x = torch.stack([v for k in range(s + 1 - H, s + 1) for v in (at(wind, k), known[k], lat.reshape(-1)[p])], 1)
        x = (x - mean) / std
        x = torch.relu(x @ w["0.weight"].T + w["0.bias"])
        known[s + 1] = (x @ w["2.weight"].T + w["2.bias"])[:, 0]
        out.append(known[s + 1])
    return torch.stack(out, 1), torch.stack([at(ice, k) for k in range(1, steps + 1)], 1)
start = load("start"); stats = start["hpctrain"]["normalisation"]
z = np.load("p.npz")
out, target = rolled(start["model_state_dict"], stats, z["id"].astype("i8"))
np.testing.assert_allclose(z["prediction"], out, atol=2e-5); np.testing.assert_array_equal(z["target"], target)
train = np.load("train.npz")["id"].astype("i8")
def step(steps):
    w = {k: v.clone().requires_grad_() for k, v in start["model_state_dict"].items()}
    out, target = rolled(w, stats, train, steps)
    torch.nn.functional.mse_loss(out, target).backward()
    return {k: (v - 0.1 * v.grad).detach() for k, v in w.items()}
for name, steps in (("all", K), ("first", 1)):
    own, expected = load(name)["model_state_dict"], step(steps)
    for k in expected: np.testing.assert_allclose(own[k], expected[k], atol=3e-6, err_msg=f"{name} {k}")
error = np.sqrt(((out - target).double() ** 2).mean(0)).tolist()
print(json.dumps(dict(rmse=error, samples=len(train))))
`;

Deno.test("a rollout is torch's, step by step, in eval, predict and training, whose gradient goes through all steps", () =>
  inTemp(async (cwd) => {
    await askPeer("data/windows.py", cwd);
    const data = [
      ...["--data-path=maps.nc", "--features=wind,ice,lat", "--targets=ice", "--history=2", "--lead=1"],
      ...["--validate-on=2001", "--test-on=2003..", "--normalise=measured"],
    ];
    const model = [
      "--model=mlp",
      "--layers=1",
      "--hidden-size=8",
      "--device=cpu",
      "--threads=1",
      "--no-wandb",
    ];
    const sgd = [
      "--optimizer=sgd",
      "--lr=0.1",
      "--momentum=0",
      "--weight-decay=0",
      "--scheduler=constant",
      "--warmup=0",
    ];
    const train = ["train", ...data, ...model];
    await succeed([...train, ...sgd, "--rollout=3", "--epochs=1", "--batch-size=90", "--run-name=start"], {
      cwd,
    });
    const path = "checkpoints/start_latest.pt";
    await succeed(["predict", path, "--on=test", "--out=p.npz"], { cwd });
    const all = await succeed(["predict", path, "--on=train", "--out=train.npz"], { cwd });
    const judged = await succeed(["eval", path, "--on=test", "--json"], { cwd });
    const { metrics } = JSON.parse(judged.stdout.trim().split("\n").at(-1)!);
    const once = (rollout: string, name: string, more: string[] = []) =>
      succeed([
        ...train,
        ...sgd,
        `--rollout=${rollout}`,
        `--init-from=${path}`,
        `--run-name=${name}`,
        ...more,
        "--max-steps=1",
        "--epochs=3",
      ], { cwd });
    const samples = Number(/of (\d+) samples/.exec(all.stdout)![1]);
    const whole = ["--batch-size=64", `--global-batch-size=${samples}`];
    await once("3", "all", whole);
    await once("1..3", "first", whole);
    const torch = JSON.parse(python(PEER, cwd));
    assertEquals(torch.samples, samples);
    torch.rmse.forEach((rmse: number, k: number) => {
      assertAlmostEquals(metrics[`rmse/ice+${k + 1}`], rmse, 1e-5);
      assert(typeof metrics[`skill_persistence/ice+${k + 1}`] === "number");
    });
    // A model that was trained for one step goes several, and grids have the leads.
    const longer = await succeed(["eval", path, "--on=test", "--rollout=5", "--json"], { cwd });
    assertEquals(
      Object.keys(JSON.parse(longer.stdout.trim().split("\n").at(-1)!).metrics).filter((k) =>
        k.startsWith("rmse/")
      ).length,
      5,
    );
    assertMatch(
      (await run([...train, "--rollout=2", "--lead=1..2", "--epochs=1"], { cwd })).stderr,
      /give --lead 1/,
    );
  }));

Deno.test("maps with land: a schedule of steps has the same losses on 1 and 2 ranks, held and streamed, and predicts beyond the data", () =>
  inTemp(async (cwd) => {
    await askPeer("data/windows.py", cwd);
    const train = [
      ...[
        "train",
        "--data-path=holes.nc",
        "--features=ice,lat",
        "--targets=ice",
        "--history=2",
        "--lead=1",
        "--rollout=1..3",
      ],
      ...[
        "--validate-on=2002",
        "--test-on=2003..",
        "--normalise=measured",
        "--mask-channel",
        "--anomaly=ice",
        "--climatology-channel",
      ],
      ...[
        "--model=unet",
        "--width=4",
        "--depth=1",
        "--loss=crps",
        "--batch-size=4",
        "--global-batch-size=8",
        "--epochs=3",
      ],
      ...["--device=cpu", "--threads=1", "--no-wandb", "--deterministic=world"],
    ];
    await succeed([...train, "--run-name=one"], { cwd });
    await succeed(["launch", "-n", "2", "--", ...train, "--in-memory=no", "--run-name=two"], { cwd });
    const { outputs } = readDiagnostics(`${cwd}/logs/one`)!;
    assertEquals(outputs.map(({ target, lead }) => [target, lead]), [["ice", 1], ["ice", 2], ["ice", 3]]);
    const [one, two] = ["one", "two"].map((name) =>
      eventsOf(cwd, name).filter(({ kind }) => kind === "epoch").map((
        { loss, val_loss, val_metrics },
      ) => [loss, val_loss, val_metrics])
    );
    assertEquals([one.length, two], [3, one]);
    assert(
      one.flat().every((value) => typeof value !== "number" || Number.isFinite(value)),
      JSON.stringify(one),
    );
    const checked = await succeed([...train, "--gradient-checkpointing", "--run-name=again"], { cwd });
    assert(checked.code === 0);
    const again = eventsOf(cwd, "again").filter(({ kind }) => kind === "epoch").map(({ val_loss }) =>
      Number(val_loss)
    );
    again.forEach((loss, i) => assertAlmostEquals(loss, Number(one[i][1]), 1e-5));
    Deno.copyFileSync(`${cwd}/holes.nc`, `${cwd}/now.nc`);
    const now = [
      "predict",
      "checkpoints/one_latest.pt",
      "--data-path=now.nc",
      "--no-targets",
      "--out=now.nc4.nc",
    ];
    assertMatch(
      (await succeed(now, { cwd })).stdout,
      /ice \[forecast_reference_time=46, lead=3, lat=5, lon=6\]/,
    ); // to the last time
  }));
