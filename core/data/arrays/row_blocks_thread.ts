// A thread that helps to read a column's rows, until none is left.
import type { ThreadScope } from "../../base/threads.ts";
import { type BlockOrders, loadRows, readBlocks } from "./open_rows.ts";

declare const self: ThreadScope;

self.onmessage = async ({ data }: MessageEvent<BlockOrders>) => {
  await loadRows([data.column.rows]);
  readBlocks(data);
  self.close();
};
