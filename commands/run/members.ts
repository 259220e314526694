// The checkpoints that eval and predict are given: the first has the settings, the others answer beside it.
import { didYouMean } from "../../core/base/suggest.ts";
import { VIEWS, type Views } from "../../core/predict/views.ts";
import { UserError } from "../../core/base/errors.ts";
import type { EnsembleOptions } from "../../core/predict/load.ts";
import { resolveSettings, type SettingsRequest } from "../../core/settings/resolve.ts";
import { savedConfig } from "../../core/train/resume.ts";
import { withUserCode } from "../user_code.ts";

/** More passes than that are a mistake. */
const MOST_PASSES = 100_000;

export async function membersOf(
  others: readonly string[],
  words: SettingsRequest,
  options: { readonly "mc-dropout"?: string; readonly members?: boolean; readonly tta?: string },
): Promise<EnsembleOptions> {
  const passes = options["mc-dropout"] === undefined ? 0 : passesIn(options["mc-dropout"]);
  const each = options.members === true;
  if (each && passes === 0 && others.length === 0) {
    throw new UserError(
      "usage",
      "--members writes what each member of an ensemble predicts: give several checkpoints, or --mc-dropout 20.",
    );
  }
  const members = [];
  for (const path of others) {
    const { config } = await withUserCode(resolveSettings({ ...words, checkpoint: savedConfig(path) }));
    members.push({ path, config });
  }
  return { others: members, passes, each, tta: options.tta === undefined ? null : viewsNamed(options.tta) };
}

function viewsNamed(text: string): Views {
  const found = VIEWS.find((name) => name === text.replaceAll("-", "_"));
  if (found) return found;
  throw new UserError("usage", `--tta is ${VIEWS.join(", ")}, and not "${text}".${didYouMean(text, VIEWS)}`);
}

function passesIn(text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count > 0 && count <= MOST_PASSES) return count;
  throw new UserError(
    "usage",
    `--mc-dropout takes how often each sample is predicted, such as 20, but got "${text}".`,
  );
}
