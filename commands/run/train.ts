// `hpctrain train`, and `train(config)` of the library: the request. Then libtorch is loaded while the rest of the program is, which
// takes as long.
import { layoutRequest, refuseJobLayout } from "../../core/ranks/job/layout.ts";
import { parseOptions, splitOwnOptions } from "../../core/settings/options.ts";
import { presetOf, resolveSettings } from "../../core/settings/resolve.ts";
import type { Config } from "../../core/settings/settings.ts";
import { placeFlags, rankContext } from "../../core/ranks/context.ts";
import { EXIT } from "../../core/base/errors.ts";
import { beginLoading, loaded } from "../../core/train/device.ts";
import type { TrainEnd } from "../../core/train/run.ts";
import type { TrainRequest } from "../../core/train/setup/launch.ts";
import { OPTIONS, USAGE } from "../train.ts";

export type Resolve = TrainRequest["resolve"];

export async function runTrain(argv: string[]): Promise<number> {
  const env = Deno.env.toObject();
  const { own, rest } = splitOwnOptions(argv, OPTIONS);
  const { options } = parseOptions(own, OPTIONS, USAGE);
  const resolve: Resolve = (more) => resolveSettings({ argv: rest, env, ...more });
  // The lines that tell how to go on repeat it.
  const repeated = options.sandbox ? ["--sandbox", ...rest] : rest;
  if (!options["dry-run"]) return (await beginTraining(resolve, repeated, env)).code;
  const { dryRun } = await import("./train_dry_run.ts");
  await dryRun(resolve, env);
  return EXIT.done;
}

async function beginTraining(
  resolve: Resolve,
  argv: readonly string[] | null,
  env: Record<string, string>,
): Promise<TrainEnd> {
  const began = (Date.now() - performance.now()) / 1000; // of the process
  const settings = resolve(); // they may say which rank this is
  const where = rankContext(env, placeFlags(settings.config.distributed));
  refuseJobLayout(env, where, layoutRequest(settings.config));
  beginLoading(settings.config);
  try {
    const [{ trainInProcess }, { outputsOf: outputs }, { withTrainingCode }] = await Promise.all([
      import("../../core/train/run.ts"),
      import("../../core/outputs/outputs.ts"),
      import("../user_code.ts"),
    ]);
    return await trainInProcess(
      { resolve, withUserCode: withTrainingCode, argv, env, began, where, outputs },
      settings,
    );
  } finally {
    await loaded();
  }
}

/** How a run that `train` did has ended, and where its files are. */
export interface Trained {
  /** True where it was asked to stop before its end, and saved. */
  readonly stopped: boolean;
  /** The run's name. */
  readonly run: string;
  /** The folder of its events and logs. */
  readonly logs: string;
  /** The folder of its checkpoints. */
  readonly checkpoints: string;
}

/**
 * Trains as `hpctrain` does with these settings, and resolves when the run has ended: one of several ranks where a launcher
 * has started several, with checkpoints, events, a W&B run and lines on standard output. What the environment says
 * (`EPOCHS`, `HPCTRAIN_...`) counts where the configuration has its preset's value.
 *
 * ```ts
 * import { getDebugConfig, train } from "@hpctrain/hpctrain";
 * const config = getDebugConfig();
 * config.training.epochs = 2;
 * const { checkpoints } = await train(config);
 * ```
 *
 * Throws a `UserError` where the run can't begin or fails.
 */
export async function train(config: Config): Promise<Trained> {
  const env = Deno.env.toObject();
  const program = { config: structuredClone(config), preset: presetOf(config) };
  const resolve: Resolve = (more) => resolveSettings({ argv: [], env, program, ...more });
  const { code, paths: { run, logs, checkpoints } } = await beginTraining(resolve, null, env);
  return { stopped: code === EXIT.stopped, run, logs, checkpoints };
}
