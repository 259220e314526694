// The model of the checkpoint that a command is given: one of hpctrain's says which it is, those of other programs are told by flags.
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { UserError } from "../../core/base/errors.ts";
import { type Resolved, resolveSettings, type SettingsRequest } from "../../core/settings/resolve.ts";
import type { Config } from "../../core/settings/settings.ts";
import { settingsIn } from "../../core/train/run_folder.ts";
import { OF_OTHERS, settingsAmong, type SettingsFilter } from "../options.ts";
import { withUserCode } from "../user_code.ts";

/** Its run's settings, damaged ones too; null in another program's file, whatever that calls "config". */
function settingsOf(path: string): unknown {
  using file = openCheckpoint(path);
  const saved = settingsIn(file.root) as Partial<Config> | null;
  if (file.root instanceof Map && file.root.get("hpctrain") instanceof Map) return saved;
  return saved?.data && saved.training && saved.model?.name !== undefined ? saved : null;
}

/** A request may name checkpoints only; `takes` are the settings beside a checkpoint that knows its model. */
export function checkpointsIn(request: SettingsRequest, takes: SettingsFilter): Resolved {
  return resolveSettings({ ...request, takes: withOthers(takes) });
}

export const withOthers = (takes: SettingsFilter): SettingsFilter => {
  const others = settingsAmong(OF_OTHERS);
  return (path) => takes(path) || others(path);
};

/** The settings to ask the model of this checkpoint by. */
export async function resolvedFor(
  path: string,
  request: SettingsRequest,
  takes: SettingsFilter,
): Promise<{ readonly resolved: Resolved; readonly saved: unknown }> {
  const saved = settingsOf(path);
  const resolved = resolveSettings({
    ...request,
    takes: saved === null ? withOthers(takes) : takes,
    checkpoint: saved,
  });
  if (saved === null && resolved.origin("model.name").kind === "default") {
    using file = openCheckpoint(path);
    file.verify(); // damage comes first
    throw new UserError(
      "usage",
      `${path} was not written by hpctrain, so it does not say which model it is of: name that as in training, such as ` +
        "--model resnet18 --output-size 1000, and the data.",
    );
  }
  return { resolved: await withUserCode(resolved), saved };
}
