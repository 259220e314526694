// Threads share counters that wrap round, a mailbox for values, and a note of the first failure.

/** A thread's module declares it: `declare const self: ThreadScope`. */
export interface ThreadScope extends EventTarget {
  onmessage: ((event: MessageEvent) => void) | null;
  postMessage(message: unknown, transfer?: readonly ArrayBufferLike[]): void;
  close(): void;
}

export interface Thread<Answer> {
  post(message: unknown): void;
  next(): Promise<Answer>;
  end(): void;
}

export function startThread<Answer>(module: URL, name: string, options: unknown): Thread<Answer> {
  const worker = new Worker(module, { type: "module", name });
  const unread: Answer[] = [];
  let reader: PromiseWithResolvers<Answer> | null = null, broken: Error | null = null;
  worker.onmessage = ({ data }: MessageEvent<Answer>) => {
    if (reader === null) return void unread.push(data);
    reader.resolve(data);
    reader = null;
  };
  worker.onerror = (event) => {
    event.preventDefault();
    broken = new Error(event.message);
    reader?.reject(broken);
  };
  worker.postMessage(options);
  return {
    post: (message) => worker.postMessage(message),
    next() {
      if (unread.length > 0) return Promise.resolve(unread.shift() as Answer);
      if (broken !== null) return Promise.reject(broken);
      reader = Promise.withResolvers();
      return reader.promise;
    },
    end: () => worker.terminate(),
  };
}

/** Counters wrap at 2^32, and no thread is 2^31 behind. */
export const reached = (words: Int32Array, counter: number, number: number): boolean =>
  ((Atomics.load(words, counter) - number) | 0) >= 0;

export interface FailureNote {
  write(sentence: string): void;
  read(): string | null;
}

/** A note takes this many bytes, with a zero behind its text. */
export const NOTE_BYTES = 4096;

/** `words[flag]` becomes 1 when the note is written. */
export function openFailureNote(words: Int32Array<SharedArrayBuffer>, flag: number, at: number): FailureNote {
  const buffer = new Uint8Array(words.buffer, at, NOTE_BYTES);
  return {
    write(sentence) {
      if (Atomics.load(words, flag) !== 0) return;
      buffer.set(new TextEncoder().encode(sentence).subarray(0, NOTE_BYTES - 1));
      Atomics.store(words, flag, 1);
    },
    read() {
      if (Atomics.load(words, flag) === 0) return null;
      return new TextDecoder().decode(buffer.slice(0, buffer.indexOf(0)));
    },
  };
}
