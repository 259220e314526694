// A reader for tests: colour images of 9 x 11 in which every byte occurs. Test helper.
import type { ReaderModule, ReaderSpec } from "../../../../core/data/source/reader.ts";

export const SHAPE = [3, 9, 11];

export const madeImages: ReaderSpec = { module: import.meta.url };

const reader: ReaderModule = {
  open() {
    const data = new Uint8Array(3 * 9 * 11);
    return {
      read(index, target) {
        for (let i = 0; i < data.length; i++) data[i] = index * 57 + i * 7 + (i >> 5);
        target.fill(0);
        target[0] = index % 10;
        return { data, shape: SHAPE };
      },
      close() {},
    };
  },
};

export default reader;
