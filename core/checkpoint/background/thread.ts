// The thread that writes checkpoints, one after the other, and the one that makes their checksums meanwhile.
// May import its siblings, ffi's shared memory; never libtorch.
/// <reference lib="deno.worker" />
import { prefault } from "../../../ffi/prefault.ts";
import type { Place } from "../../../ffi/shared_memory.ts";
import { type Failure, failureOf } from "./failure.ts";
import { type Job, write, type Written } from "./job.ts";
import { makeSums, summing, type SumOrder } from "./sums.ts";

export type Order = { readonly prefault: readonly Place[] } | { readonly write: Job } | SumOrder;
export type Answer = { readonly written: Written } | { readonly failure: Failure };

let second: Worker | null = null;
const sums = summing((order) => {
  second ??= new Worker(import.meta.url, { type: "module", name: "checksums" });
  second.postMessage(order);
});

self.onmessage = ({ data: order }: MessageEvent<Order>) => {
  if ("prefault" in order) return order.prefault.forEach(prefault);
  if ("sum" in order) return makeSums(order);
  let answer: Answer;
  try {
    answer = { written: write(order.write, sums) };
  } catch (error) {
    answer = { failure: failureOf(error) };
  }
  self.postMessage(answer);
};
