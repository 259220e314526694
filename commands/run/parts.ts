// Parts of a run's data that eval judges by and predict predicts: the run's own split.
import { didYouMean } from "../../core/base/suggest.ts";
import { valuesWithoutSecrets } from "../../core/base/secrets.ts";
import { UserError } from "../../core/base/errors.ts";
import { resolve as absolute } from "../../deps/path.ts";
import { hasColumns } from "../../core/data/open/formats.ts";
import type { Opened } from "../../core/data/open/open.ts";
import type { Source } from "../../core/data/source/source.ts";
import { readsFiles, wholeCounts } from "../../core/settings/counts.ts";
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

export function sourceOfPart({ train, val, test }: Opened, part: PartName): Source {
  const source = part === "test" ? test : part === "validation" ? val : train;
  if (source !== null) return source;
  throw new UserError(
    "data",
    part === "test"
      ? "The run kept no samples for a test: train with --test-on 2015.. or --test-path FILE, say, which training never sees."
      : "There is no validation data: give --val-samples N or --validation-split 0.1.",
  );
}

/** No sample of files is left out, and none of a table or grid held out, unless the user says so here. */
export function whole(config: Config, { origin }: Resolved): Config {
  if (!readsFiles(config.data)) return config;
  const data = { ...config.data, ...wholeCounts(config.data, origin) };
  return hasColumns(data)
    ? withoutOwnFiles({ ...config, data: { ...data, val_samples: 0 } })
    : { ...config, data };
}

const withoutOwnFiles = (config: Config): Config => ({
  ...config,
  data: { ...config.data, validation_path: "", test_path: "" },
});

/** True where the data is not the run's own, however it was named: then all of its samples are new. A checkpoint has paths without secrets. */
export function isOtherData({ data }: Config, saved: unknown): boolean {
  const place = (path: string) => valuesWithoutSecrets(path && absolute(path));
  const same = (a: string, b: unknown) => place(a) === place(String(b));
  return !same(data.data_path, readSetting(saved, "data.data_path") ?? "") ||
    !same(data.code, readSetting(saved, "data.code") ?? "");
}

/** Other data is not judged by the files that the run was; where it is divided anew, not by the run's stretches either. */
export function withItsOwnParts(resolved: Resolved, saved: unknown): Config {
  const { config, origin } = resolved, typed = (name: string) => isTyped(origin(`data.${name}`));
  if (!isOtherData(config, saved)) return config;
  const own = typed("validation_path") || typed("test_path") ? config : withoutOwnFiles(config);
  if (!isDividedAnew(resolved)) return own;
  const kept = (name: "validate_on" | "test_on") => typed(name) ? own.data[name] : "";
  return { ...own, data: { ...own.data, validate_on: kept("validate_on"), test_on: kept("test_on") } };
}

const isDividedAnew = ({ origin }: Resolved): boolean =>
  [...OF_PARTS, "data.val_samples"].some((path) => isTyped(origin(path)));

/** How the run divided its own samples says nothing of other data, unless somebody divides that anew. */
export const isUndivided = (resolved: Resolved, saved: unknown): boolean =>
  saved !== null && isOtherData(resolved.config, saved) && hasColumns(resolved.config.data) &&
  !isDividedAnew(resolved);

const OF_PARTS = [
  ...["data.split", "data.validate_on", "data.test_on", "data.validation_split", "data.folds", "data.fold"],
  ...["data.validation_path", "data.test_path"],
];

const DIVIDING = [...OF_PARTS, "data.history", "data.lead", "training.seed"];

/** Another split than the run's own may judge a model by what it was trained with. */
export function otherSplit({ config, originText }: Resolved, saved: unknown): string | null {
  const own = (path: string) => readSetting(saved, path) ?? findSetting(path)?.setting.default;
  if (isOtherData(config, saved)) return null;
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
