// A source whose samples stay in their files until they are wanted. May import ffi, source, its siblings.
import { borrowBytes, uninitialised } from "../../../ffi/make.ts";
import type { Facts } from "../../models/model.ts";
import {
  type Batch,
  type Field,
  type Part,
  plainPart,
  type Source,
  source,
  type SourceParts,
} from "../source.ts";
import type { ReaderSpec } from "./kinds.ts";
import { openPipeline, type Pipeline } from "./pipeline.ts";
import type { Threaded } from "./threaded.ts";

export interface ThreadedParts {
  readonly name: string;
  /** Samples, and where each is in the files; null where that is its own number. */
  readonly length: number;
  readonly indices: Int32Array | null;
  readonly reader: ReaderSpec;
  /** One stored input, and its target. */
  readonly stored: Field;
  readonly target: Field;
  readonly bad: "fail" | "skip";
  readonly task: Facts["task"];
  readonly outputs: number;
  readonly targetless?: boolean;
  readonly description: string;
  readonly names?: Source["names"];
  readonly usual?: Source["usual"];
  readonly bytewise?: boolean;
  readonly columns?: SourceParts["columns"];
  finish?(raw: Batch): Batch;
}

export function threadedSource(parts: ThreadedParts): Source {
  const { length, reader, stored, target, bad } = parts;
  const indices = parts.indices && shared(parts.indices);
  const threaded = {
    ...{ reader, indices, length, target, bad },
    ...{ input: stored, levels: null, geometry: null, seed: null },
  };
  const { raw, passedOver } = readRows(threaded);
  const fields = [stored.name, target.name] as const;
  const made = source({ ...parts, fields, raw: (ids, epoch) => raw(plainPart(ids, epoch)) });
  return { ...made, threaded, passedOver, bytewise: parts.bytewise };
}

/** Reads the rows in the thread that asks; what it opens for that stays open for as long as the program runs. */
export function readRows(threaded: Threaded): Required<Pick<Source, "raw" | "passedOver">> {
  let passed = 0;
  let pipeline: Pipeline | null = null;
  const { input, target } = threaded;
  const raw = ({ ids, epoch }: Part): Batch => {
    pipeline ??= openPipeline(threaded);
    const made = ({ shape, dtype }: Field) => uninitialised([ids.length, ...shape], { dtype });
    const batch = { input: made(input), target: made(target) };
    const inputs = borrowBytes(batch.input), targets = borrowBytes(batch.target);
    if (pipeline.part) {
      passed += pipeline.part(Array.from(ids), epoch, inputs, targets);
      return batch;
    }
    const i = inputs.length / ids.length, t = targets.length / ids.length;
    for (let row = 0; row < ids.length; row++) {
      passed += pipeline.row(
        ids[row],
        epoch,
        inputs.subarray(row * i, (row + 1) * i),
        targets.subarray(row * t, (row + 1) * t),
      );
    }
    return batch;
  };
  return { raw, passedOver: () => passed };
}

/** In memory that threads share. */
function shared(indices: Int32Array): Int32Array {
  if (indices.buffer instanceof SharedArrayBuffer) return indices;
  const copy = new Int32Array(new SharedArrayBuffer(indices.byteLength));
  copy.set(indices);
  return copy;
}
