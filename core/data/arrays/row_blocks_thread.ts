// A thread that helps to read a column's rows, until none is left.
import type { ThreadScope } from "../../base/threads.ts";
import { loadRows } from "./open_rows.ts";
import { type BlockOrders, readBlocks } from "./row_blocks.ts";

declare const self: ThreadScope;

self.onmessage = async ({ data }: MessageEvent<BlockOrders>) => {
  await loadRows([data.column.rows]);
  readBlocks(data);
  self.close();
};
