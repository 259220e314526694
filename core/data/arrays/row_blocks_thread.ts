// A thread that helps to read a column's rows, until none is left.
import type { ThreadScope } from "../../base/threads.ts";
import { loadRows, readBlocks, type RowBlockOrders } from "./open_rows.ts";

declare const self: ThreadScope;

self.onmessage = async ({ data }: MessageEvent<RowBlockOrders>) => {
  await loadRows([data.column.rows]);
  readBlocks(data);
  self.close();
};
