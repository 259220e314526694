// The thread that writes checkpoints, and the one that helps it with large ones.
import { type MemoryBlock, prefault } from "../../../ffi/libc.ts";
import { type Failure, failureOf } from "../../base/failure.ts";
import { help, isLarge, type SaveJob, type SharedWork, writeCheckpoint, type WriteResult } from "./job.ts";
import type { ThreadScope } from "../../base/threads.ts";

declare const self: ThreadScope;

export type SaveOrder =
  | { readonly prefault: readonly MemoryBlock[] }
  | { readonly write: SaveJob }
  | { readonly help: SharedWork }
  /** When all is written: a message to the module of this address. */
  | { readonly take: unknown; readonly by: string };
export type SaveAnswer = { readonly written: WriteResult } | { readonly failure: Failure };

let second: Worker | null = null;
const theOther = () => second ??= new Worker(import.meta.url, { type: "module", name: "checkpoints-2" });
const callHelp = (work: SharedWork) => theOther().postMessage({ help: work } satisfies SaveOrder);

/** Training waits for a part of the first save, so the pages and the other thread are ready before it. */
function prepare(places: readonly MemoryBlock[]): void {
  if (isLarge(places)) theOther();
  places.forEach(prefault);
}

self.onmessage = ({ data: order }: MessageEvent<SaveOrder>) => {
  if ("prefault" in order) return prepare(order.prefault);
  if ("help" in order) return help(order.help);
  if ("by" in order) return void import(order.by).then(({ take }) => take(order.take));
  let answer: SaveAnswer;
  try {
    answer = { written: writeCheckpoint(order.write, callHelp) };
  } catch (error) {
    answer = { failure: failureOf(error) };
  }
  self.postMessage(answer);
};
