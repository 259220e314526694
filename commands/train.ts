// `hpctrain train`: what it is asked for. Then libtorch is on its way while the rest of the program is loaded, which takes
// as long.
import { layoutRequest, refuseJobLayout } from "../core/ranks/job/layout.ts";
import { parseOptions, splitOwnOptions } from "../core/settings/options.ts";
import { type Resolved, resolveSettings, type SettingsRequest } from "../core/settings/resolve.ts";
import { placeFlags, whereAmI } from "../core/ranks/context.ts";
import { EXIT } from "../core/base/errors.ts";
import { beginLoading, loaded } from "../core/train/libtorch.ts";
import type { RunPaths } from "../core/train/run_folder.ts";
import { TRAIN_OPTIONS } from "./options.ts";

const USAGE = "hpctrain [train] [FLAGS]. `hpctrain train --help` lists them.";

/** The settings, with what only shows on the way: how many ranks there are, and which checkpoint it goes on from. */
export type ResolveRequest = (more?: Pick<SettingsRequest, "ranks" | "checkpoint">) => Resolved;

export interface TrainRequest {
  readonly ask: ResolveRequest;
  /** The command's words; null where a program of the user's own trains, which no command repeats. */
  readonly argv: readonly string[] | null;
  readonly env: Record<string, string>;
}

export interface TrainEnd {
  readonly code: number;
  readonly places: RunPaths;
}

export async function train(argv: string[]): Promise<number> {
  const env = Deno.env.toObject();
  const { own, rest } = splitOwnOptions(argv, TRAIN_OPTIONS);
  const { options } = parseOptions(own, TRAIN_OPTIONS, USAGE);
  const started: TrainRequest = {
    ask: (more) => resolveSettings({ argv: rest, env, ...more }),
    argv: rest,
    env,
  };
  if (!options["dry-run"]) return (await begin(started)).code;
  const { dryRun } = await import("./train_dry_run.ts");
  await dryRun(started);
  return EXIT.done;
}

export async function begin({ ask, argv, env }: TrainRequest): Promise<TrainEnd> {
  const began = (Date.now() - performance.now()) / 1000; // of the process
  const settings = ask(); // where this is may stand in them
  const where = whereAmI(env, placeFlags(settings.config.distributed));
  refuseJobLayout(env, where, layoutRequest(settings.config));
  beginLoading(settings.config);
  try {
    const { trainHere } = await import("./train_here.ts");
    return await trainHere({ ask, argv, env, began, settings, where });
  } finally {
    await loaded();
  }
}
