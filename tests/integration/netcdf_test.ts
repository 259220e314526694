// A NetCDF file and the YAML that comes with it train as they stand, in the executable too.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { python } from "../core/checkpoint/python.ts";
import { inTemp, run } from "./program.ts";

/** Seven features and a target that follows from them, on a grid in time and space with land in it. */
const ICE = `
import sys, numpy as np, netCDF4
r = np.random.default_rng(0)
with netCDF4.Dataset(sys.argv[1], "w", format=sys.argv[2]) as d:
    for name, size in (("time", None), ("y", 15), ("x", 20)): d.createDimension(name, size)
    d.createVariable("time", "f8", ("time",))[:] = np.arange(20)
    land = np.broadcast_to(r.random((15, 20)) < 0.1, (20, 15, 20))
    features = [r.normal(size=land.shape) for _ in range(7)]
    for i, f in enumerate(features):
        v = d.createVariable(f"f{i}", "f4", ("time", "y", "x"), fill_value=-9999.0)
        v[:] = np.ma.array(f, mask=land)
    v = d.createVariable("thickness", "f4", ("time", "y", "x"), fill_value=1e20)
    v[:] = np.ma.array(sum((i + 1) * f for i, f in enumerate(features)) / 7, mask=land)
`;

const YAML = `
model: { input_size: 7, hidden_size: 64, output_size: 1 }
data: { data_path: "ice.nc", validation_split: 0.1, num_workers: 4 }
training:
  epochs: 200
  batch_size: 128
  optimizer: { type: "adam", learning_rate: 0.001, weight_decay: 1e-5 }
  scheduler: { type: "cosine" }
  early_stopping_patience: 20
  log_interval: 100
  save_interval: 50
  use_amp: true
  profile_training: true
  log_gpu_memory: true
output: { model_dir: "models/" }
`;

for (const format of ["NETCDF3_CLASSIC", "NETCDF4"]) {
  Deno.test(`a YAML file that names an ice.nc (${format}) trains a model that predicts, and eval agrees`, () =>
    inTemp(async (cwd) => {
      python(ICE, `${cwd}/ice.nc`, format);
      Deno.writeTextFileSync(`${cwd}/ice.yaml`, YAML);
      // Fewer epochs than its 200, to save time.
      const args = ["--config", "ice.yaml", "--epochs=4", "--device=cpu", "--threads=1"];
      const { code, stdout, stderr } = await run(args, { cwd });
      assertEquals(code, 0, stderr);
      assertMatch(stdout, /Data: ice\.nc: .*7.*1 number/);
      assertMatch(stdout, /Left out \d+ of 6000 samples marked as missing/);
      const r2 = Number(/\[Epoch 4\/4\].* Val R2: ([\d.]+)/.exec(stdout)?.[1]);
      assert(r2 > 0.9, stdout);
      const judged = await run(["eval", "models/mlp_best.pt", "--device=cpu", "--threads=1"], { cwd });
      assertEquals(judged.code, 0, judged.stderr);
      assertMatch(judged.stdout, /R2/);
    }));
}
