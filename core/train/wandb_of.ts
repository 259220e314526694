// The W&B run that a training run writes: its id over all attempts, and what it begins with.
// May import config (types), checkpoint (types), models, track, its siblings.
import { join } from "../../deps/path.ts";
import type { Libtorch } from "../../ffi/libraries/types.ts";
import type { Device } from "../../ffi/tensor.ts";
import type { Cursor } from "../checkpoint/training_state.ts";
import type { Config } from "../config/settings.ts";
import type { Team } from "../dist/team.ts";
import { parameterCount } from "../models/model.ts";
import { wandbSetup } from "../track/wandb/setup.ts";
import type { WandbSetup } from "../track/wandb/types.ts";
import { VERSION } from "../version.ts";
import { placeInEpoch } from "./batch_math.ts";
import { bestPath, latestPath, type Places } from "./names.ts";
import type { Resume } from "./resume.ts";
import type { Trained } from "./trained.ts";

interface Of {
  readonly config: Config;
  readonly device: Device;
  readonly libtorch: Libtorch;
  readonly resume: Resume | null;
  readonly again?: string | null;
  readonly team?: Team | null;
  readonly began?: number;
}

/** Null where none is wanted. */
export function wandbOf(
  start: Of,
  { built, plan }: Trained,
  places: Places,
  cursor: Cursor,
): WandbSetup | null {
  const { resume, again, device, team, began } = start;
  const goesOn = (resume !== null && resume.run !== null) || !!again;
  const { data, model } = built;
  const world = team?.world ?? 1;
  const onGpu = device !== "cpu";
  const { step, epoch } = cursor;
  const { stepInEpoch } = placeInEpoch(cursor, plan, data.train.length);
  const setup = wandbSetup({
    config: ownConfig(start),
    run: places.run,
    logs: places.logs,
    checkpoints: { best: bestPath(places), latest: latestPath(places) },
    id: goesOn ? resume?.wandb ?? noted(places) : null,
    resumed: goesOn ? { step, epoch } : null,
    pace: {
      step,
      stepInEpoch,
      stepsPerEpoch: plan.stepsPerEpoch,
      maxSteps: start.config.training.max_steps,
    },
    facts: {
      version: VERSION,
      model: model.name,
      parameters: parameterCount(model.root),
      world_size: world,
      device: onGpu ? "cuda" : "cpu",
      libtorch: start.libtorch.versionText,
      train_samples: data.train.length,
      val_samples: data.val?.length ?? 0,
      steps_per_epoch: plan.stepsPerEpoch,
      global_batch_size: plan.global,
    },
    argv: Deno.args,
    env: Deno.env.toObject(),
    began: began ?? Date.now() / 1000,
    gpus: onGpu ? world : 0,
  });
  if (setup) note(places, setup);
  return setup;
}

/** Another run from the same checkpoint does not go on with its W&B run, whatever that was called by hand. */
function ownConfig({ config, resume }: Of): Config {
  const inherited = resume !== null && resume.run === null &&
    (resume.saved as Partial<Config> | null)?.wandb?.id === config.wandb.id;
  return inherited ? { ...config, wandb: { ...config.wandb, id: "" } } : config;
}

/** Beside the events: a run that ended before its first save has no checkpoint with the id in it. */
const fileOf = ({ logs }: Places) => join(logs, "wandb.json");

function noted(places: Places): string | null {
  try {
    const { id } = JSON.parse(Deno.readTextFileSync(fileOf(places)));
    return typeof id === "string" ? id : null;
  } catch {
    return null;
  }
}

function note(places: Places, { run: { id }, path }: WandbSetup): void {
  try {
    Deno.writeTextFileSync(fileOf(places), JSON.stringify({ id, path }) + "\n");
  } catch { /* it is in the first checkpoint */ }
}
