// Which checkpoint `--resume` means, and the settings in it. May import checkpoint, config, errors.
import { openCheckpoint } from "../checkpoint/open.ts";
import { unplain } from "../checkpoint/training_state.ts";
import type { Config } from "../config/settings.ts";
import { UserError } from "../errors.ts";
import { newestRun } from "./names.ts";

export interface Resume {
  readonly path: string;
  readonly run: string;
}

/** Null starts afresh: nothing was asked, or `auto` found nothing. */
export function resumeFrom(config: Config, preset: string | null): Resume | null {
  const asked = config.training.resume;
  if (asked === "") return null;
  if (asked === "auto") return newestRun(config, preset);
  const run = header(asked).run;
  if (typeof run !== "string") {
    throw new UserError(
      "checkpoint",
      `${asked} is not a checkpoint of a run, so there is nothing to resume: to start from its weights, use --init-from ${asked}.`,
    );
  }
  return { path: asked, run };
}

/** The settings a checkpoint was made with. */
export function savedConfig(path: string): unknown {
  using file = openCheckpoint(path);
  return file.root instanceof Map ? unplain(file.root.get("config") ?? null) : null;
}

function header(path: string): { run?: unknown } {
  using file = openCheckpoint(path);
  const own = file.root instanceof Map ? file.root.get("hpctrain") : undefined;
  return own instanceof Map ? { run: own.get("run") } : {};
}
