// Rows of packed shards that are held in memory: read once, in ascending order, each with its checksum.
import { crc32 } from "node:zlib";
import { askForHugePages } from "../../../ffi/libc.ts";
import { borrowBytes, memoryBlockOf, uninitialised } from "../../../ffi/make.ts";
import { narrow } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { partOf } from "../arrays/numbers.ts";
import { BadSample } from "../arrays/rows.ts";
import { damagedSample, openShards, startsOf } from "./reader.ts";
import { HEADER_BYTES, type Index, inputOf, type RowLayout, type Shard, targetOf } from "./schema.ts";

interface Loaded {
  readonly input: Tensor;
  readonly target: Tensor;
  readonly indices: Int32Array;
}

export function loadRows(
  folder: string,
  shards: readonly Shard[],
  { schema: { input, target } }: Index,
  layout: RowLayout,
  ids: Int32Array,
  bad: "fail" | "skip",
): Loaded {
  const { inputBytes, targetBytes } = layout;
  return scope(() => {
    const make = (field: typeof input) => uninitialised([ids.length, ...field.shape], { dtype: field.dtype });
    const rows = { input: make(input), target: make(target) };
    askForHugePages(memoryBlockOf(rows.input));
    const inputs = borrowBytes(rows.input), targets = borrowBytes(rows.target);
    const kept = new Int32Array(ids.length);
    let count = 0;
    const files = openShards(folder, shards.map(({ name }) => name));
    try {
      const rowOf = openWindow(files, shards, layout, ids.length);
      for (const id of ids) {
        try {
          const row = rowOf(id);
          inputs.set(row.input, count * inputBytes);
          targets.set(row.target, count * targetBytes);
          kept[count++] = id;
        } catch (error) {
          if (!(error instanceof BadSample)) throw error;
          if (bad === "skip") continue;
          throw new UserError("data", `Sample ${id} (${error.path}) ${error.reason}.`, { cause: error });
        }
      }
    } finally {
      files.close();
    }
    if (count === ids.length) return { ...rows, indices: ids };
    if (count === 0) {
      throw new UserError("data", `Every sample in ${folder} is damaged. Copy the folder again.`);
    }
    const good = (all: Tensor) => narrow(all, 0, 0, count);
    return { input: good(rows.input), target: good(rows.target), indices: kept.slice(0, count) };
  });
}

const WINDOW_BYTES = 8 << 20;

type Files = ReturnType<typeof openShards>;

type Row = { readonly input: Uint8Array; readonly target: Uint8Array };

/** Rows come in ascending order, and are valid until the next. */
function openWindow(
  files: Files,
  shards: readonly Shard[],
  layout: NonNullable<Index["layout"]>,
  wanted: number,
): (id: number) => Row {
  const { rowBytes, crcAt } = layout;
  const starts = startsOf(shards);
  const many = wanted > starts[shards.length] / 4;
  const most = many ? Math.max(1, Math.floor(WINDOW_BYTES / rowBytes)) : 1;
  let window = new Uint8Array(0), view = new DataView(window.buffer), from = 0, to = 0;
  return (id) => {
    const shard = partOf(starts, id);
    if (id < from || id >= to) {
      from = id;
      to = Math.min(id + most, starts[shard + 1]);
      window = new Uint8Array((to - from) * rowBytes);
      view = new DataView(window.buffer);
      files.read(shard, window, HEADER_BYTES + (from - starts[shard]) * rowBytes);
    }
    const i = id - from;
    const input = inputOf(window, layout, i), target = targetOf(window, layout, i);
    if (crc32(target, crc32(input)) !== view.getUint32(i * rowBytes + crcAt, true)) {
      throw damagedSample(files.path(shard));
    }
    return { input, target };
  };
}
