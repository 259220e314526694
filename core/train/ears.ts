// Signals, for a training thread that has no time to hear them: within a step no JavaScript of ours runs but the step's
// own. Another thread hears them, and leaves the first where it is found by a look. Imports nothing.

export interface Ears {
  /** The first signal that came, or null. Costs a look at a word. */
  heard(): Deno.Signal | null;
  close(): void;
}

/** What the thread is started with. */
export interface Listen {
  readonly signals: readonly Deno.Signal[];
  /** 0, or 1 + the place of the signal that came first. */
  readonly word: SharedArrayBuffer;
}

export function openEars(signals: readonly Deno.Signal[]): Ears {
  const word = new SharedArrayBuffer(4);
  const first = new Int32Array(word);
  const thread = new Worker(new URL("./ears_thread.ts", import.meta.url), { type: "module", name: "ears" });
  thread.onerror = (event) => event.preventDefault(); // without it, signals are heard after the step
  thread.postMessage({ signals, word } satisfies Listen);
  return {
    heard: () => signals[Atomics.load(first, 0) - 1] ?? null,
    close: () => thread.terminate(),
  };
}
