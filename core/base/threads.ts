// What every thread's own file needs: the typed scope of a worker.

/** Declared in a thread's module: `declare const self: ThreadScope`. */
export interface ThreadScope extends EventTarget {
  onmessage: ((event: MessageEvent) => void) | null;
  postMessage(message: unknown, transfer?: readonly ArrayBufferLike[]): void;
  close(): void;
}
