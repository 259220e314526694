// Images in folders -> what packing them as they are needs. May import errors, images, source, its siblings.
import { UserError } from "../../errors.ts";
import { headerOf } from "../images/header.ts";
import { labelOf, type Listing, pathOf } from "../images/listing.ts";
import type { ImagesSpec } from "../images/reader.ts";
import { BadSample } from "../reading/reader.ts";
import type { Source } from "../source.ts";
import type { Schema } from "./format.ts";
import type { Encoded } from "./write.ts";

export interface EncodedPacking {
  readonly schema: Schema;
  readonly samples: number;
  readonly val: number;
  readonly sampleBytes: number;
  make(sample: number): Encoded;
}

/** Files whose lengths are looked at, to plan the shards with. */
const LOOKED_AT = 256;

export function imagesOf(train: Source, val: Source | null): EncodedPacking {
  const sets = [train, ...(val ? [val] : [])].map(filesOf);
  const samples = train.length + (val?.length ?? 0);
  const at = (sample: number): File =>
    sample < train.length ? sets[0](sample) : sets[1](sample - train.length);
  const count = Math.min(samples, LOOKED_AT);
  const sizes = Array.from(
    { length: count },
    (_, i) => Deno.statSync(at(Math.floor(i * samples / count)).path).size,
  );
  const { width, height } = headerOf(read(at(0)));
  const { task, outputs } = train.facts;
  return {
    schema: {
      encoding: "encoded",
      input: { name: train.input.name, shape: [3, height, width], dtype: "u8", seen: "f32", divisor: 255 },
      target: { name: train.target.name, shape: [], dtype: "i64", seen: "i64" },
      task,
      outputs,
      names: train.names,
    },
    samples,
    val: val?.length ?? 0,
    sampleBytes: Math.ceil(sizes.reduce((sum, size) => sum + size, 0) / count),
    make(sample) {
      const file = at(sample);
      const input = read(file);
      return { input, target: new Uint8Array(BigInt64Array.of(BigInt(file.label)).buffer) };
    },
  };
}

interface File {
  readonly path: string;
  readonly label: number;
}

function filesOf(source: Source): (sample: number) => File {
  const threaded = source.threaded;
  if (threaded?.reader.kind !== "images") {
    throw new UserError(
      "usage",
      `--keep-encoded is for images in class folders (JPEG, PNG, WebP), and ${source.name} holds no such: leave it out.`,
    );
  }
  const listing: Listing = (threaded.reader as ImagesSpec).listing;
  return (sample) => {
    const index = threaded.indices?.[sample] ?? sample;
    return { path: pathOf(listing, index), label: labelOf(listing, index) };
  };
}

/** Its header is looked at: what is no image is found now and not in training. */
function read({ path }: File): Uint8Array {
  try {
    const bytes = Deno.readFileSync(path);
    headerOf(bytes);
    return bytes;
  } catch (error) {
    const reason = error instanceof BadSample ? error.reason : `can't be read: ${(error as Error).message}`;
    throw new UserError("data", `${path} ${reason}. Repair it, or take it out of the folder.`, {
      cause: error,
    });
  }
}
