// Which checkpoint `--resume` means, and the settings in it. May import checkpoint, config, errors.
import { openCheckpoint } from "../checkpoint/open.ts";
import { toJson } from "../checkpoint/describe.ts";
import type { Config } from "../config/settings.ts";
import { FILE_NAME } from "../config/settings_run.ts";
import { UserError } from "../errors.ts";
import { checkpointsOf, newestRun } from "./names.ts";

export interface Resume {
  readonly path: string;
  readonly run: string;
  /** Why it is not the newest one. */
  readonly notice?: string;
}

/** Null starts afresh: nothing was asked, or `auto` found nothing. */
export function resumeFrom(config: Config, preset: string | null): Resume | null {
  const asked = config.training.resume;
  if (asked === "") return null;
  if (asked === "auto") return newestGood(config, preset);
  const run = header(asked).run;
  if (typeof run !== "string") {
    throw new UserError(
      "checkpoint",
      `${asked} is not a checkpoint of a run, so there is nothing to resume: to start from its weights, use --init-from ${asked}.`,
    );
  }
  return { path: asked, run };
}

/** The newest checkpoint of the newest run that can be read. When none can, it is an error: nothing starts afresh. */
function newestGood(config: Config, preset: string | null): Resume | null {
  const newest = newestRun(config, preset, givenName);
  if (newest === null) return null;
  const { run, path } = newest;
  try {
    header(path);
    return newest;
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    const good = checkpointsOf(path, run).find((other) => isOf(run, other));
    if (good === undefined) throw error;
    return { path: good, run, notice: `Passed over a damaged checkpoint. ${error.message}` };
  }
}

function isOf(run: string, path: string): boolean {
  try {
    return header(path).run === run;
  } catch {
    return false; // damaged too
  }
}

function givenName(path: string): unknown {
  try {
    return (savedConfig(path) as Config | null)?.output?.run_name;
  } catch {
    return undefined; // a damaged checkpoint is told of later
  }
}

/** The settings a checkpoint was made with. */
export function savedConfig(path: string): unknown {
  using file = openCheckpoint(path);
  return file.root instanceof Map ? toJson(file.root.get("config") ?? null, true) : null;
}

function header(path: string): { run?: unknown } {
  using file = openCheckpoint(path);
  const own = file.root instanceof Map ? file.root.get("hpctrain") : undefined;
  if (!(own instanceof Map)) return {};
  const run = own.get("run");
  if (typeof run === "string" && FILE_NAME.regex.test(run)) return { run };
  throw new UserError(
    "checkpoint",
    `${path}: its run has no name that files can have, so hpctrain did not write it: ` +
      `to start from its weights, use --init-from ${path}.`,
  );
}
