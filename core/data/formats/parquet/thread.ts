// A thread that helps to read a table's row groups, until none is left.
import type { ThreadScope } from "../../../base/threads.ts";
import { type BlockOrders, readGroups } from "./blocks.ts";

declare const self: ThreadScope;

self.onmessage = ({ data }: MessageEvent<BlockOrders>) => {
  readGroups(data);
  self.close();
};
