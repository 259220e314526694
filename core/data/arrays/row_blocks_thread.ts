// A thread that helps to read a column's rows, until none is left.
import type { ThreadScope } from "../../base/threads.ts";
import { type BlockOrders, readBlocks } from "./row_blocks.ts";

declare const self: ThreadScope;

self.onmessage = ({ data }: MessageEvent<BlockOrders>) => {
  readBlocks(data);
  self.close();
};
