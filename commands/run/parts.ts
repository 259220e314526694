// Parts of a run's data that eval judges by and predict predicts: the run's own split.
import { didYouMean } from "../../core/base/suggest.ts";
import { valuesWithoutSecrets } from "../../core/base/secrets.ts";
import { UserError } from "../../core/base/errors.ts";
import type { Opened } from "../../core/data/open.ts";
import type { Source } from "../../core/data/source.ts";
import type { Resolved } from "../../core/settings/resolve.ts";
import { type Config, findSetting, readSetting } from "../../core/settings/settings.ts";
import { isTyped } from "../../core/settings/values.ts";

const PARTS = ["test", "validation", "train", "all"] as const;
export type PartName = typeof PARTS[number];

export function partNamed(word: string): PartName {
  const known = word === "val" ? "validation" : PARTS.find((part) => part === word);
  if (known) return known;
  throw new UserError(
    "usage",
    `--on ${word} is none of ${PARTS.join(", ")}.${didYouMean(word, PARTS)}`,
  );
}

export function partOf({ train, val, test }: Opened, part: PartName): Source {
  const source = part === "test" ? test : part === "validation" ? val : train;
  if (source !== null) return source;
  throw new UserError(
    "data",
    part === "test"
      ? "The run kept no samples for a test: train with --test-on 2015.. or --test-path FILE, say, which training never sees."
      : "There is no validation data: give --val-samples N or --validation-split 0.1.",
  );
}

/** No sample of a table or grid is left out, and none held out, unless the user says so here. */
export function whole(config: Config, { origin }: Resolved): Config {
  const mine = isTyped(origin("data.train_samples"));
  const train_samples = mine ? config.data.train_samples : Number.MAX_SAFE_INTEGER;
  return withoutOwnFiles({ ...config, data: { ...config.data, train_samples, val_samples: 0 } });
}

export const withoutOwnFiles = (config: Config): Config => ({
  ...config,
  data: { ...config.data, validation_path: "", test_path: "" },
});

/** A checkpoint has the path without its secrets. */
const hasOtherData = ({ data }: Config, saved: unknown): boolean =>
  valuesWithoutSecrets(readSetting(saved, "data.data_path")) !== valuesWithoutSecrets(data.data_path);

/** Other data is not judged by the files that the run was. */
export function withItsOwnFiles({ config, origin }: Resolved, saved: unknown): Config {
  const other = hasOtherData(config, saved);
  const typed = ["data.validation_path", "data.test_path"].some((path) => isTyped(origin(path)));
  return other && !typed ? withoutOwnFiles(config) : config;
}

const DIVIDING = [
  ...["data.split", "data.validate_on", "data.test_on", "data.validation_split", "data.folds", "data.fold"],
  ...["data.validation_path", "data.test_path", "data.history", "data.lead", "training.seed"],
];

/** Another split than the run's own may judge a model by what it was trained with. */
export function otherSplit({ config, originText }: Resolved, saved: unknown): string | null {
  const own = (path: string) => readSetting(saved, path) ?? findSetting(path)?.setting.default;
  if (hasOtherData(config, saved)) return null;
  const changed = DIVIDING.filter((path) => own(path) !== readSetting(config, path));
  return changed.length === 0 ? null : "Samples are divided otherwise than in the run (" +
    changed.map((path) => `${path}: ${originText(path)}`).join(", ") +
    "), so some of these may be samples that it was trained with.";
}

/** Members that were divided otherwise may have learnt what others of them are judged by. */
export function otherSplits(members: readonly Config[]): string | null {
  const [first] = members;
  const values = (path: string) => [...new Set(members.map((one) => String(readSetting(one, path))))];
  const { split, validate_on, validation_path } = first.data;
  const drawn = validate_on === "" && validation_path === "" && split !== "time";
  const differ = DIVIDING.filter((path) => values(path).length > 1 && (drawn || path !== "training.seed"));
  return differ.length === 0 ? null : "The checkpoints' runs divided their samples differently (" +
    differ.map((path) => `${path}: ${values(path).join(", ")}`).join("; ") +
    "), so some of these may be samples that some of them were trained with. --validate-on or --split time divides all alike.";
}
