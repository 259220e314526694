// Threads read the images of a WebDataset out of its shards.
import { openPool } from "../../core/data/arrays/files.ts";
import { BadSample, type FileMark } from "../../core/data/arrays/rows.ts";
import type { Reader, ReaderModule, ReaderSpec } from "../../core/data/source/reader.ts";
import { openReusedBuffer } from "../../core/data/images/header.ts";
import { naming } from "../../core/data/images/listing.ts";
import { openImageDecoder } from "../../core/data/images/reader.ts";
import { partOf } from "../../core/data/arrays/numbers.ts";

export interface ShardImages {
  readonly shards: readonly FileMark[];
  readonly starts: readonly number[];
  readonly at: Float64Array;
  readonly sizes: Float64Array;
  /** Names with zeros between them, as UTF-8. */
  readonly names: Uint8Array;
  readonly turbo: string | null;
  readonly deep?: boolean;
}

export interface ShardImagesSpec extends ReaderSpec {
  readonly images: ShardImages;
  /** Shared memory holds the targets of all samples. */
  readonly targets: Uint8Array;
}

export const TAR_IMAGES_READER: string = import.meta.url;

/** Names are for messages and predictions, so they are looked for from the beginning. */
export function nameOf({ shards, starts, names }: ShardImages, index: number): string {
  let from = 0;
  for (let i = 0; i < index; i++) from = names.indexOf(0, from) + 1;
  const end = names.indexOf(0, from);
  const name = new TextDecoder().decode(names.slice(from, end < 0 ? names.length : end));
  return `${shards[partOf(starts, index)].path}/${name}`;
}

/** No image file is as large: such a size is damage. */
const MOST_BYTES = 2 ** 30;

function open({ images, targets }: ShardImagesSpec): Reader {
  const { shards, starts, at, sizes, turbo, deep } = images;
  const decode = openImageDecoder(turbo, deep), buffer = openReusedBuffer(), pool = openPool();
  return {
    read(index, target) {
      target.set(targets.subarray(index * target.length, (index + 1) * target.length));
      const size = sizes[index];
      if (size > MOST_BYTES) {
        throw new BadSample(nameOf(images, index), `has ${size} bytes, which no image has`);
      }
      const file = buffer(size).subarray(0, size);
      pool.passing(shards[partOf(starts, index)]).read(file, at[index]);
      try {
        return decode(file);
      } catch (error) {
        if (!(error instanceof BadSample)) throw error;
        return naming(nameOf(images, index), () => {
          throw error;
        });
      }
    },
    close: pool.close,
  };
}

export default { open } satisfies ReaderModule<ShardImagesSpec>;
