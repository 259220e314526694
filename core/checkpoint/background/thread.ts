// The thread that writes checkpoints, one after the other. May import job, ffi's shared memory; never libtorch.
/// <reference lib="deno.worker" />
import { prefault } from "../../../ffi/prefault.ts";
import type { Place } from "../../../ffi/shared_memory.ts";
import { type Failure, failureOf, type Job, write, type Written } from "./job.ts";

export type Order = { readonly prefault: readonly Place[] } | { readonly write: Job };
export type Answer = { readonly written: Written } | { readonly failure: Failure };

self.onmessage = ({ data: order }: MessageEvent<Order>) => {
  if ("prefault" in order) return order.prefault.forEach(prefault);
  let answer: Answer;
  try {
    answer = { written: write(order.write) };
  } catch (error) {
    answer = { failure: failureOf(error) };
  }
  self.postMessage(answer);
};
