// The thread that hears signals for a training thread which is in the midst of a step.
import type { SignalThreadOptions } from "./stop.ts";
import type { ThreadScope } from "../base/threads.ts";

declare const self: ThreadScope;

self.onmessage = ({ data: { signals, word } }: MessageEvent<SignalThreadOptions>) => {
  const heard = new Int32Array(word);
  signals.forEach((name, i) =>
    Deno.addSignalListener(name, () => Atomics.compareExchange(heard, 0, 0, i + 1))
  );
};
