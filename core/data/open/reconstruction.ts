// --targets input: a model learns to give its input back, as an autoencoder does. The target is the input as the model sees it.
import { isFloating } from "../../../ffi/dtype.ts";
import { UserError } from "../../base/errors.ts";
import type { Config } from "../../settings/settings.ts";
import { finishThen, type Source } from "../source/source.ts";

const WORD = "input";

export const isReconstruction = ({ targets }: Pick<Config["data"], "targets">): boolean =>
  targets.length === 1 && targets[0] === WORD;

/** Refuses what speaks of targets that are something else. */
export function checkReconstruction(
  { lead, rollout, normalise_targets }: Config["data"],
  features: readonly string[],
): void {
  const other = features.includes(WORD)
    ? `a column that is called ${WORD}: rename it`
    : lead !== "" && lead !== "0"
    ? `--lead ${lead}: leave it out`
    : rollout !== ""
    ? "--rollout: leave it out"
    : normalise_targets === "on"
    ? "--normalise-targets: the input is normalised for both, so leave it out"
    : null;
  if (other === null) return;
  throw new UserError(
    "usage",
    `--targets ${WORD} makes the input itself the target, and does not go with ${other}.`,
  );
}

/** Whatever is done with an input is done with its target. */
export function givingItsInput(source: Source, features: readonly string[]): Source {
  const { input, name, facts: { targetless: _, missing: __, upscale: ___, ...facts } } = source;
  if (!isFloating(input.dtype)) {
    throw new UserError(
      "data",
      `--targets ${WORD} is for inputs that are numbers, and those of ${name} are ${input.dtype}: a model that gives tokens ` +
        "back takes them as targets of their own.",
    );
  }
  const outputs = input.shape[0] ?? 1;
  const own = (one: Source): Source => ({
    ...one,
    target: { ...input, name: WORD },
    facts: { ...facts, task: "regression", outputs },
    names: features.length === outputs ? features : undefined,
    ...{
      reference: undefined,
      labels: undefined,
      restore: undefined,
      anomalies: undefined,
      baselines: undefined,
    },
    host: one.host && own(one.host),
  });
  return own(finishThen(source, (batch) => ({ input: batch.input, target: batch.input })));
}
