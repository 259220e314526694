// Anomalies from the command line: predictions and metrics in the target's own units, the climatology in the
// checkpoint, on one rank and on two.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { python } from "../core/checkpoint/python.ts";
import { askPeer } from "../peer.ts";
import { eventsOf, inTemp, succeed } from "./program.ts";
import { assertSentence } from "../sentences.ts";

const JUDGE = `
import json, os, sys, numpy as np, torch, netCDF4
os.chdir(sys.argv[1])
p = np.load("p.npz"); t, o = p["target"].astype("f8"), p["prediction"].astype("f8")
ice = np.ma.filled(netCDF4.Dataset("holes.nc")["ice"][:], np.nan)
np.testing.assert_allclose(p["target"], np.stack([ice[p["id"] + k] for k in (1, 2)], 1), atol=2e-6)
ok = np.isfinite(t[:, 0]); a, b = t[:, 0][ok], o[:, 0][ok]
np.testing.assert_allclose(np.load("others.npz")["prediction"][p["id"]], p["prediction"], atol=2e-6)
c = torch.load("checkpoints/r_latest.pt", weights_only=True)["hpctrain"]["climatology"]
days = netCDF4.num2date(netCDF4.Dataset("holes.nc")["time"][:], "days since 1979-01-01", "noleap")
seen = [i for i, d in enumerate(days) if d.year < 2002]
mean = np.stack([np.nanmean(ice[[i for i in seen if days[i].month == m]].astype("f8"), 0) for m in range(1, 13)])
np.testing.assert_allclose(c["means"]["ice"].numpy().reshape(mean.shape)[:, 2:], mean[:, 2:], atol=1e-6)
def r2(k):
    month = np.array([days[i + k].month for i in p["id"]]) - 1
    x, y = (v[:, k - 1] - mean[month] for v in (t, o)); ok = np.isfinite(x)
    return 1 - np.mean((y[ok] - x[ok]) ** 2) / np.var(x[ok])
print(json.dumps({"anomaly_r2": (r2(1) + r2(2)) / 2, "rmse": np.sqrt(np.mean((b - a) ** 2)), "r2": 1 - np.mean((b - a) ** 2) / np.var(a), "bias": np.mean(b - a)}))
`;

Deno.test("a model of anomalies predicts and is judged in the target's own units, by the climatology of its checkpoint, on 1 and 2 ranks", () =>
  inTemp(async (cwd) => {
    await askPeer("data/windows.py", cwd);
    const data = ["--data-path=holes.nc", "--features=wind,ice", "--targets=ice", "--lead=1,2"];
    const years = ["--validate-on=2002", "--test-on=2003.."];
    const climate = ["--anomaly=ice", "--fill=climatology", "--climatology-channel", "--mask-channel"];
    const train = [
      ...[
        "train",
        ...data,
        ...years,
        ...climate,
        "--model=unet",
        "--width=4",
        "--depth=1",
        "--loss=gaussian_nll",
      ],
      ...[
        "--batch-size=4",
        "--global-batch-size=8",
        "--epochs=2",
        "--device=cpu",
        "--threads=1",
        "--no-wandb",
        "--deterministic=world",
      ],
    ];
    const { stdout } = await succeed([...train, "--run-name=r"], { cwd });
    assertSentence("integration/anomaly: climatology ice wind", stdout);
    const path = "checkpoints/r_latest.pt";
    const judged = await succeed(["eval", path, "--on=test", "--json"], { cwd });
    const { metrics } = JSON.parse(judged.stdout.trim().split("\n").at(-1)!);
    await succeed(["predict", path, "--on=test", "--out=p.npz"], { cwd });
    Deno.copyFileSync(`${cwd}/holes.nc`, `${cwd}/others.nc`);
    await succeed(["predict", path, "--data-path=others.nc", "--no-targets", "--out=others.npz"], { cwd });
    const numpy = JSON.parse(python(JUDGE, cwd));
    for (const name of ["rmse", "r2", "bias"]) {
      assertAlmostEquals(metrics[`${name}/ice+1`], numpy[name], 2e-5, name);
    }
    assertAlmostEquals(metrics.anomaly_r2, numpy.anomaly_r2, 2e-5);
    // An epoch's line has one scale, which it names, in training and validation.
    const line =
      /\[Epoch 2\/2\] .*\| Anomaly R2: (\S+) \| Val Loss: \S+ \(scaled\) \| Val Anomaly R2: (\S+) \(worst/
        .exec(stdout);
    const epoch = eventsOf(cwd, "r").findLast(({ kind }) => kind === "epoch")!;
    const [trained, judgedBy] = [epoch.metrics, epoch.val_metrics] as Record<string, number>[];
    assertEquals("r2" in trained, false);
    assert(Math.abs(judgedBy.r2 - judgedBy.anomaly_r2) > 1e-3, "the values have another R2");
    [trained, judgedBy].forEach((of, i) => assertAlmostEquals(Number(line?.[i + 1]), of.anomaly_r2, 1e-4));
    assert(typeof metrics.skill_climatology === "number");

    await succeed(["launch", "-n", "2", "--", ...train, "--in-memory=no", "--run-name=two"], { cwd });
    const [one, two] = ["r", "two"].map((name) =>
      eventsOf(cwd, name).filter(({ kind }) => kind === "eval").map((
        { val_loss, metrics },
      ) => [val_loss, metrics])
    );
    assertEquals([one.length, two], [2, one]);
  }));
