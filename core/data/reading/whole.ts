// Readers that are asked for all samples of a part at once, such as a user's own code: whoever reads, and however many
// threads do, the calls are the same. May import errors, transforms, its siblings.
import { openGeometry } from "../transforms/geometry.ts";
import { drawsOf } from "./draws.ts";
import { allBad, bad, finiteCheck, numbersOf, PATIENCE, type Pipeline } from "./pipeline.ts";
import { BadSample } from "./reader.ts";
import type { Threaded } from "./threaded.ts";

/** Reads all samples of a part. Never used by two threads: each opens its own. */
export interface WholeReader {
  /** Writes each sample's row; throws what ends the run. */
  readPart(indices: readonly number[], epoch: number, inputs: Uint8Array, targets: Uint8Array): void;
  /** Of one stored input, before it is cropped or turned. */
  readonly stored: readonly number[];
  readonly path: string;
  close(): void;
}

export function openWhole(t: Threaded, reader: WholeReader): Pipeline {
  const arrange = t.geometry ? openGeometry(t.geometry, t.input.shape) : null;
  const draws = drawsOf(t.seed);
  const finite = finiteCheck(t.input.dtype);
  const elements = (shape: readonly number[]) => shape.reduce((product, size) => product * size, 1);
  const indexOf = (id: number) => t.indices === null ? id : t.indices[id];
  const rowsOf = (bytes: Uint8Array, count: number) => {
    const each = bytes.length / count;
    return Array.from({ length: count }, (_, row) => bytes.subarray(row * each, (row + 1) * each));
  };
  const read = (ids: readonly number[], epoch: number, inputs: Uint8Array, targets: Uint8Array) => {
    if (!arrange) return reader.readPart(ids.map(indexOf), epoch, inputs, targets);
    const each = inputs.length / ids.length / elements(t.input.shape) * elements(reader.stored);
    const stored = new Uint8Array(ids.length * each);
    reader.readPart(ids.map(indexOf), epoch, stored, targets);
    const into = rowsOf(inputs, ids.length);
    rowsOf(stored, ids.length).forEach((row, i) => {
      const data = numbersOf(t.input.dtype, row);
      arrange({ data, shape: reader.stored }, numbersOf(t.input.dtype, into[i]), draws(ids[i], epoch));
    });
  };
  const row = (id: number, epoch: number, input: Uint8Array, target: Uint8Array, unread: boolean): number => {
    for (let passed = 0;; passed++) {
      const now = (id + passed) % t.length;
      try {
        if (unread || passed > 0) read([now], epoch, input, target);
        finite(numbersOf(t.input.dtype, input), reader.path);
        return passed;
      } catch (error) {
        if (!(error instanceof BadSample)) throw error;
        if (t.bad === "fail") throw bad(error, indexOf(now));
        if (passed + 1 >= Math.min(PATIENCE, t.length)) throw allBad(error, passed + 1);
      }
    }
  };
  return {
    row: (id, epoch, input, target) => row(id, epoch, input, target, true),
    part(ids, epoch, inputs, targets) {
      read(ids, epoch, inputs, targets);
      const ofTarget = rowsOf(targets, ids.length);
      return rowsOf(inputs, ids.length).reduce(
        (passed, input, i) => passed + row(ids[i], epoch, input, ofTarget[i], false),
        0,
      );
    },
    close: () => reader.close(),
  };
}
