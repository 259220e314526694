import { fromColumns } from "../../core/data/tables/columns.ts";
import type { DataReader } from "../../core/data/format.ts";
import { loadReader } from "../../core/data/source/reader.ts";
import { IMAGE_MEMBER, memberColumns } from "./columns.ts";
import { openImages } from "./images.ts";
import { readSamples, type TarSamples } from "./samples.ts";
import { TAR_IMAGES_READER } from "./reader.ts";

const tableOf = (samples: TarSamples) => ({
  path: samples.path,
  kind: samples.shards.length > 1 ? `${samples.shards.length} shards of WebDataset` : "shard of WebDataset",
  noun: "member",
  columns: memberColumns(samples),
});

/** Images are features unless others are named. */
const imageIn = ({ members }: TarSamples, features: readonly string[]): string | undefined =>
  [...members.keys()].find((ending) =>
    IMAGE_MEMBER.test(ending) && (features.length === 0 || features.includes(ending))
  );

export const reader: DataReader = {
  prepare: () => loadReader({ module: TAR_IMAGES_READER }),
  open(request) {
    const samples = readSamples(request.data.data_path), table = tableOf(samples);
    const image = imageIn(samples, request.data.features);
    return image === undefined ? fromColumns(table, request) : openImages(samples, image, table, request);
  },
  table: (path, use) => use(tableOf(readSamples(path))),
};
