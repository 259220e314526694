// Packed shards as a kind of data, and how they are seen before training.
import { formatBytes, formatPlural } from "../../../base/format.ts";
import { encodedSpec } from "../../shards/encoded_reader.ts";
import { fieldBytes, type Index, type PackedSchema, type Shard, spelled } from "../../shards/schema.ts";
import { readIndex } from "../../shards/index.ts";
import { loadPackedReader, openPacked } from "../../shards/source.ts";
import type { DataReader } from "../../format.ts";
import { packedSpec } from "../../shards/reader.ts";
import { openReader } from "../../source/reader.ts";
import {
  openSamples,
  type Pictures,
  picturesOf,
  type Preview,
  previewRows,
  type SampleAt,
  sampleImages,
} from "../../preview/preview.ts";
import type { PreviewField } from "../../preview/axes.ts";

function previewPacked<R>(path: string, use: (preview: Preview) => R): R {
  const index = readIndex(path);
  const { layout, schema, train, val } = index;
  const shards = [...train, ...val];
  // Validation samples follow training samples, as in training.
  const spec = layout
    ? packedSpec(path, shards, schema.input, layout)
    : encodedSpec(path, shards, fieldBytes(schema.target), null, false);
  const reader = openReader(spec);
  try {
    const samples = count(shards), sampleAt = openSamples(reader, schema.target);
    const fields = fieldsOf(schema, samples, sampleAt);
    return use({
      path,
      kind: "packed shards",
      bytes: shards.reduce((sum, { bytes }) => sum + bytes, 0),
      samples,
      noun: "field",
      facts: factsOf(index),
      fields,
      classes: null,
      pictures: samplePictures(schema, fields, sampleAt),
    });
  } finally {
    reader.close();
  }
}

function fieldsOf(
  { encoding, input, target, task, names }: PackedSchema,
  samples: number,
  sampleAt: SampleAt,
) {
  const field = ({ name, shape, dtype }: typeof input) => ({ name, shape: [samples, ...shape], dtype });
  const texts = task === "classification" ? names : undefined;
  const fields: PreviewField[] = [
    encoding === "rows"
      ? { ...field(input), read: previewRows(sampleAt, (sample) => sample.input.data) }
      : { ...field(input), shape: [samples], remark: "images as their files hold them", read: null },
    // Images are not decoded for their targets alone.
    {
      ...field(target),
      texts,
      read: encoding === "rows" ? previewRows(sampleAt, (sample) => sample.target) : null,
    },
  ];
  return fields;
}

function samplePictures(
  schema: PackedSchema,
  fields: readonly PreviewField[],
  sampleAt: SampleAt,
): Pictures | null {
  const { encoding, input, target, task, names } = schema;
  const pictures = encoding === "rows"
    ? picturesOf(fields)
    : { field: input.name, count: fields[0].shape[0], raster: sampleImages(sampleAt) };
  if (!pictures || task !== "classification" || target.shape.length > 0) return pictures;
  const caption = (sample: number) => {
    const label = Number(sampleAt(sample).target[0]);
    return names?.[label] ?? `class ${label}`;
  };
  return { ...pictures, caption };
}

function factsOf({ origin, schema, train, val, samplesPerShard }: Index): Preview["facts"] {
  const { input, target, task, outputs, names } = schema;
  const seen = ({ name, seen, divisor }: typeof input) =>
    `${name} as ${spelled(seen)}${divisor ? ` divided by ${divisor}` : ""}`;
  return {
    origin: `${origin.kind}: ${origin.said} (${origin.hash.slice(0, 16)})`,
    shards: `${setText(train)} to train with, ${
      setText(val)
    } to validate with, up to ${samplesPerShard} samples each`,
    task: `${task}, ${formatPlural(outputs, "output")}${names ? `: ${names.join(", ")}` : ""}`,
    seen: `${seen(input)}, ${seen(target)}`,
  };
}

const count = (shards: readonly Shard[]) => shards.reduce((sum, { samples }) => sum + samples, 0);

const setText = (shards: readonly Shard[]) =>
  `${shards.length} with ${formatPlural(count(shards), "sample")} (${
    formatBytes(shards.reduce((sum, { bytes }) => sum + bytes, 0))
  })`;

export const reader: DataReader = {
  prepare: ({ data_path }) => loadPackedReader(data_path),
  open: openPacked,
  preview: previewPacked,
};
