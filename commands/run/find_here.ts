// The finders have settings, device and data in common, on one process.
import { environmentLines } from "../../core/settings/environment.ts";
import { type Resolved, resolveSettings } from "../../core/settings/resolve.ts";
import { UserError } from "../../core/base/errors.ts";
import { loadDataReader } from "../../core/data/open/open.ts";
import { placeFlags, rankContext } from "../../core/ranks/context.ts";
import { build, type Built } from "../../core/train/build.ts";
import { refuseOptimizer } from "../../core/train/checks.ts";
import { scaleToKeep } from "../../core/train/restart.ts";
import { loaderThreads, openDevice } from "../../core/train/device.ts";
import type { Device } from "../../ffi/tensor.ts";
import { withTrainingCode } from "../user_code.ts";

interface FoundLibtorches {
  readonly resolved: Resolved;
  readonly device: Device;
  readonly built: Built;
  readonly loaders: number;
}

/** A model and its data, as a run of these flags would begin with. */
export async function openForFinder(
  command: string,
  argv: string[],
  usage: string,
): Promise<FoundLibtorches> {
  const env = Deno.env.toObject();
  const resolved = await withTrainingCode(resolveSettings({ argv, env, usage }));
  const { config } = resolved;
  if (rankContext(env, placeFlags(config.distributed)).world > 1) {
    throw new UserError(
      "usage",
      `${command} takes its steps on one process, and here are several: start it alone, without launch, srun or mpirun.`,
    );
  }
  if (config.training.resume !== "") {
    throw new UserError(
      "usage",
      `${command} begins with new weights, and goes on from no run: leave --resume out, or give --init-from FILE.`,
    );
  }
  refuseOptimizer(config);
  const { device } = openDevice(config);
  await loadDataReader(config.data);
  if (!config.output.json) { for (const line of environmentLines(resolved)) console.error(line); }
  const built = build(config, device, 1, null, undefined, scaleToKeep(config, null));
  return { resolved, device, built, loaders: loaderThreads(resolved, device).loaders };
}
