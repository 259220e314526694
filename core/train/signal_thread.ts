// The thread that receives signals while the training thread is within a step.
import type { SignalThreadOptions } from "./stop.ts";
import { onSignal } from "../../ffi/signals.ts";
import type { ThreadScope } from "../base/threads.ts";

declare const self: ThreadScope;

self.onmessage = ({ data: { signals, word } }: MessageEvent<SignalThreadOptions>) => {
  const first = new Int32Array(word);
  signals.forEach((name, i) => onSignal(name, () => Atomics.compareExchange(first, 0, 0, i + 1)));
};
