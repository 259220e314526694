// `hpctrain train`: the request. Then libtorch is loaded while the rest of the program is, which takes as long.
import { layoutRequest, refuseJobLayout } from "../../core/ranks/job/layout.ts";
import { parseOptions, splitOwnOptions } from "../../core/settings/options.ts";
import { type Resolved, resolveSettings, type SettingsRequest } from "../../core/settings/resolve.ts";
import { placeFlags, type RankContext, rankContext } from "../../core/ranks/context.ts";
import { EXIT } from "../../core/base/errors.ts";
import { beginLoading, loaded } from "../../core/train/libtorch.ts";
import type { RunPaths } from "../../core/train/run_folder.ts";
import { OPTIONS, USAGE } from "../train.ts";

/** Resolves the settings, with what shows only later: the number of ranks, and the checkpoint that the run goes on from. */
export type ResolveRequest = (more?: Pick<SettingsRequest, "ranks" | "checkpoint">) => Resolved;

export interface TrainRequest {
  readonly resolve: ResolveRequest;
  /** The command's words; null where a program of the user's own trains, which no command repeats. */
  readonly argv: readonly string[] | null;
  readonly env: Record<string, string>;
  /** Unix seconds at which the process was started. */
  readonly began: number;
  readonly where: RankContext;
}

export interface TrainEnd {
  readonly code: number;
  readonly paths: RunPaths;
}

export async function train(argv: string[]): Promise<number> {
  const env = Deno.env.toObject();
  const { own, rest } = splitOwnOptions(argv, OPTIONS);
  const { options } = parseOptions(own, OPTIONS, USAGE);
  const resolve: ResolveRequest = (more) => resolveSettings({ argv: rest, env, ...more });
  // The lines that tell how to go on repeat it.
  const repeated = options.sandbox ? ["--sandbox", ...rest] : rest;
  if (!options["dry-run"]) return (await begin(resolve, repeated, env)).code;
  const { dryRun } = await import("./train_dry_run.ts");
  await dryRun(resolve, env);
  return EXIT.done;
}

export async function begin(
  resolve: ResolveRequest,
  argv: readonly string[] | null,
  env: Record<string, string>,
): Promise<TrainEnd> {
  const began = (Date.now() - performance.now()) / 1000; // of the process
  const settings = resolve(); // they may say which rank this is
  const where = rankContext(env, placeFlags(settings.config.distributed));
  refuseJobLayout(env, where, layoutRequest(settings.config));
  beginLoading(settings.config);
  try {
    const { trainHere } = await import("./train_here.ts");
    return await trainHere({ resolve, argv, env, began, where }, settings);
  } finally {
    await loaded();
  }
}
