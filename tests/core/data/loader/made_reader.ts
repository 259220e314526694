// A reader for tests: sample i is four numbers made of i. It can be slow, and some samples can be bad.
import { BadSample } from "../../../../core/data/arrays/rows.ts";
import type { ReaderModule, ReaderSpec } from "../../../../core/data/source/reader.ts";

export interface MadeSpec extends ReaderSpec {
  /** Most milliseconds that a read takes; how long it does hangs on the sample. */
  readonly slow: number;
  readonly bad: readonly number[];
  /** The sample whose reading is a mistake in the program. */
  readonly broken?: number;
  /** How many samples a chunk has, and a word in shared memory that counts how often one is unpacked. */
  readonly chunk?: number;
  readonly unpacked?: Int32Array;
}

export const made = (more: Partial<MadeSpec> = {}): MadeSpec => ({
  module: import.meta.url,
  slow: 0,
  bad: [],
  ...more,
});

const reader: ReaderModule<MadeSpec> = {
  open({ slow, bad, broken, chunk = 0, unpacked }) {
    const data = new Float32Array(4);
    const chunkOf = (index: number) => Math.floor(index / chunk);
    let there = -1;
    return {
      groupOf: chunk > 0 ? chunkOf : undefined,
      read(index, target) {
        const until = performance.now() + slow * ((index * 7919) % 101) / 100;
        while (performance.now() < until);
        if (bad.includes(index)) throw new BadSample(`file-${index}`, "is cut off after 10 of 16 bytes");
        if (index === broken) throw new TypeError("x is not a function");
        if (chunk > 0 && chunkOf(index) !== there) {
          there = chunkOf(index);
          Atomics.add(unpacked!, 0, 1);
        }
        data.set([index, index * 2, index * 3, -index]);
        new DataView(target.buffer, target.byteOffset).setBigInt64(0, BigInt(index % 10), true);
        return { data, shape: [4] };
      },
      close() {},
    };
  },
};

export default reader;
