// The settings of `pack` choose samples or columns, and the index records their origin.
import { isAbsolute, relative, resolve } from "../../../deps/path.ts";
import { wholeCounts } from "../../settings/counts.ts";
import type { Resolved } from "../../settings/resolve.ts";
import type { Config } from "../../settings/settings.ts";
import { UserError } from "../../base/errors.ts";
import { asStored } from "./open.ts";
import { dataKindOf, FORMATS } from "./formats.ts";
import { isThere } from "../arrays/paths.ts";
import { isResampled } from "../arrays/resample.ts";
import { digest, fingerprint } from "../arrays/remembered.ts";
import type { PackedOrigin, PackPlan } from "../shards/schema.ts";
import { readIndex } from "../shards/index.ts";
import { chooseColumns, columnList } from "../tables/choose.ts";
import type { Column } from "../arrays/table.ts";

/** These settings do not affect packed samples. */
const OF_TRAINING = [
  ...["normalise", "normalise_targets", "mean", "std", "fill", "mask_channel", "scaling", "softening"],
  ...["anomaly", "climatology", "climatology_channel"],
  ...["mixup", "cutmix", "one_hot"],
  ...["random_crop", "crop_padding", "flip", "rotate", "stage"],
];

/** Images that are not decoded do not depend on these either. */
const OF_DECODING = ["resize", "centre_crop"];

/** All samples are packed, before anything random, on the host. */
export function asPacked({ config, origin, originText }: Resolved, from: string, encoded: boolean): Config {
  const unfit = [...OF_TRAINING, ...(encoded ? OF_DECODING : [])].find((name) =>
    origin(`data.${name}`).kind === "flag"
  );
  if (unfit) {
    throw new UserError(
      "usage",
      `${originText(`data.${unfit}`)} is done in training, on whatever was packed: leave it out here.`,
    );
  }
  const still = { ...asStored(config.data), ...wholeCounts(config.data, origin), stage: "" };
  const size = encoded ? { resize: 0, centre_crop: 1 } : {}; // any sizes will do
  const data = { ...still, ...size, data_path: from };
  return { ...config, data, training: { ...config.training, device: "cpu" } };
}

/** Its files would be taken for samples, and change the data's hash. */
export function refuseInside(from: string, out: string): void {
  const path = relative(resolve(from), resolve(out));
  if (path !== "" && (path.startsWith("..") || isAbsolute(path))) return;
  const where = path === "" ? "is the data to be packed itself" : `is inside the data to be packed (${from})`;
  throw new UserError("usage", `${out} ${where}: name a folder outside it.`);
}

/** These settings change how data is read, but not what is read. */
const OF_READING = ["num_workers", "in_memory", "prefetch_mib", "shuffle", "data_path"];

export function originOf(
  { data, training, model }: Config,
  { schema, samples, val }: Pick<PackPlan, "schema" | "samples" | "val">,
): PackedOrigin {
  const path = data.data_path, from = isThere(path) ? Deno.realPathSync(path) : path;
  const kind: string = dataKindOf(data);
  const chosen = Object.entries(data).filter(([key]) => !OF_READING.includes(key));
  const { seed, loss, ignore_index } = training;
  const { input_size, output_size } = model;
  const facts = { kind, chosen, seed, loss, ignore_index, input_size, output_size, schema, samples, val };
  return {
    // Repacked samples keep their kind, which decides on normalisation.
    kind: kind === "packed" ? readIndex(from).origin.kind : kind,
    hash: digest(`${fingerprint(from)} ${JSON.stringify(facts)}`),
    said: from,
  };
}

export function withColumns<R>(
  data: Config["data"],
  use: (columns: readonly Column[], notes: readonly string[]) => R,
): R {
  if (data.sel.length > 0 || data.sample_dim !== "" || isResampled(data)) {
    throw new UserError(
      "usage",
      "An .npz gets whole variables, so --sel, --sample-dim, --resample and --coarsen have no place here: choose when training with it, or " +
        "pack the samples into a folder (hpctrain pack DATA FOLDER --sel ...).",
    );
  }
  return FORMATS[dataKindOf(data)].table!(data.data_path, (table) => {
    const { columns } = table;
    const { features, targets } = chooseColumns(table, data);
    const all = [...new Set([...features, ...targets])]; // a forecast has some in both
    const left = columns.filter((column) => !all.includes(column));
    const texts = all.flatMap(({ name, text }) =>
      text
        ? [
          `${name} is text, written as its numbers: ${
            text.classes().map((one, i) => `${i} = ${one}`).join(", ")
          }`,
        ]
        : []
    );
    return use(all, [...(left.length > 0 ? [`Left aside: ${columnList(left)}`] : []), ...texts]);
  });
}
