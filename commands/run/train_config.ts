// `train(config)` of the library: a run as the program does it, from a program of the user's own.
import { presetOf, resolveSettings } from "../../core/settings/resolve.ts";
import type { Config } from "../../core/settings/settings.ts";
import { EXIT } from "../../core/base/errors.ts";
import { begin, type ResolveRequest } from "./train.ts";

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
  const resolve: ResolveRequest = (more) => resolveSettings({ argv: [], env, program, ...more });
  const { code, paths: { run, logs, checkpoints } } = await begin(resolve, null, env);
  return { stopped: code === EXIT.stopped, run, logs, checkpoints };
}
