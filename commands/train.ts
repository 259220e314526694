// `hpctrain train`: what it is asked for. Then libtorch is on its way while the rest of the program is loaded, which takes
// as long.
import { layoutRequest, refuseJobLayout } from "../core/ranks/job/layout.ts";
import { parseOptions, splitOwnOptions } from "../core/settings/options.ts";
import { type Resolved, resolveSettings, type SettingsRequest } from "../core/settings/resolve.ts";
import { placeFlags, whereAmI } from "../core/ranks/context.ts";
import { EXIT } from "../core/base/errors.ts";
import { beginLoading, loaded } from "../core/train/libtorch.ts";
import type { RunPaths } from "../core/train/run_folder.ts";
import type { Command } from "./mod.ts";

const USAGE = "hpctrain [train] [FLAGS]. `hpctrain train --help` lists them.";

const OPTIONS = {
  "dry-run": {
    kind: "bool",
    help: "check settings, data and model, tell what each step would train on, and train and write nothing",
  },
} as const;

export const command: Command = {
  usage: "hpctrain [train] [FLAGS]",
  examples: [
    "hpctrain --preset quickstart",
    "hpctrain train --config run.yaml --lr 1e-3 --epochs 20",
    "hpctrain --config run.yaml --dry-run",
    "hpctrain --model resnet18 --data-type mnist --data-path data --resume auto",
  ],
  settings: true,
  options: OPTIONS,
  run: train,
};

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
  const { own, rest } = splitOwnOptions(argv, OPTIONS);
  const { options } = parseOptions(own, OPTIONS, USAGE);
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
