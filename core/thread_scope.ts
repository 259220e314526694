// What a thread of ours sees as `self`, as types: modules that are published can't name the library deno.worker.
// Imports nothing.

/** Declared in a thread's module: `declare const self: ThreadScope`. */
export interface ThreadScope extends EventTarget {
  onmessage: ((event: MessageEvent) => void) | null;
  postMessage(message: unknown, transfer?: readonly ArrayBufferLike[]): void;
  close(): void;
}
