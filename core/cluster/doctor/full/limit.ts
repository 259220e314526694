// How long a measurement may take, with the sentence for when it takes longer: waits for other ranks ask for it. Imports
// nothing.

export interface Limit {
  /** Why nobody should wait any longer, or null. */
  over(): string | null;
  /** For what comes now. */
  set(seconds: number, sentence: string): void;
}

export function openLimit(now: () => number = () => performance.now()): Limit {
  let until = Infinity, why = "";
  return {
    over: () => now() > until ? why : null,
    set(seconds, sentence) {
      until = now() + 1000 * seconds;
      why = sentence;
    },
  };
}
