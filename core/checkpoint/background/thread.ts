// The thread that writes checkpoints, one after the other, and the one that helps it with what takes long.
// May import its siblings, ffi's shared memory; never libtorch.
import { prefault } from "../../../ffi/prefault.ts";
import type { Place } from "../../../ffi/shared_memory.ts";
import { type Failure, failureOf } from "./failure.ts";
import { type Job, write, type Written } from "./job.ts";
import { help, isLarge, type Work } from "./team.ts";
import type { ThreadScope } from "../../thread_scope.ts";

declare const self: ThreadScope;

export type Order = { readonly prefault: readonly Place[] } | { readonly write: Job } | {
  readonly help: Work;
};
export type Answer = { readonly written: Written } | { readonly failure: Failure };

let second: Worker | null = null;
const theOther = () => second ??= new Worker(import.meta.url, { type: "module", name: "checkpoints-2" });
const callHelp = (work: Work) => theOther().postMessage({ help: work } satisfies Order);

/** Before the first save, which training waits for in part: memory has its pages, and the other thread is there. */
function prepare(places: readonly Place[]): void {
  if (isLarge(places)) theOther();
  places.forEach(prefault);
}

self.onmessage = ({ data: order }: MessageEvent<Order>) => {
  if ("prefault" in order) return prepare(order.prefault);
  if ("help" in order) return help(order.help);
  let answer: Answer;
  try {
    answer = { written: write(order.write, callHelp) };
  } catch (error) {
    answer = { failure: failureOf(error) };
  }
  self.postMessage(answer);
};
