// The thread that hears signals for a training thread which is in the midst of a step. May import ears (types).
import type { Listen } from "./ears.ts";
import type { ThreadScope } from "../thread_scope.ts";

declare const self: ThreadScope;

self.onmessage = ({ data: { signals, word } }: MessageEvent<Listen>) => {
  const heard = new Int32Array(word);
  signals.forEach((name, i) =>
    Deno.addSignalListener(name, () => Atomics.compareExchange(heard, 0, 0, i + 1))
  );
};
