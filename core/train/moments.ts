// The named moments of a run, in the order of a step, and who watches them. A moment that nobody watches is an empty function.
/** Nobody watches. */
export const unwatched = {
  /**
   * The next step waits for its data, now and at every look for it; stops, saves and evaluations may come between two looks.
   * Training goes on when a promise is kept.
   */
  waiting(_step: number): Promise<void> | null | void {},
  /** A step begins; `logged`: it becomes an event. */
  stepping(_step: number, _logged: boolean) {},
  /** Its batches are on the device; the first has so many rows. */
  fed(_rows: number) {},
  /** The gradient is that of the global batch. */
  reduced() {},
  /** It is clipped, and the update waits for a save that still copies the weights. */
  clipped() {},
  held() {},
  updated() {},
  /** The whole step is queued; `step` counts it, and so does the cursor from here on (its `epoch` begins with 0). */
  stepped(_step: number) {},
  /** The numbers of the step before are there, and are told. */
  arrived() {},
  told() {},
  /** The feed has begun with the rows of the next step. */
  ahead() {},
  /** All of the step is behind, going back to an earlier checkpoint included. */
  over() {},
  /** The step was left in its middle. */
  aborted() {},
  rewinding() {},
  evaluating() {},
  evaluated() {},
  saving() {},
  saved() {},
};

export type Moments = typeof unwatched;

export type Observer = Partial<Moments>;

type Act = (a?: unknown, b?: unknown) => Promise<void> | null | void;

/** Observers come in their order; the first promise among their answers is the answer. */
export function momentsFor(observers: readonly (Observer | null)[]): Moments {
  const of = (name: keyof Moments): Act => {
    const all = observers.flatMap((one) => one?.[name] ? [one[name] as Act] : []);
    if (all.length < 2) return all[0] ?? unwatched[name];
    return (a, b) => {
      let answer: Promise<void> | null = null;
      for (let i = 0; i < all.length; i++) {
        const own = all[i](a, b) ?? null; // each sees the moment, whoever has answered before
        answer ??= own;
      }
      return answer;
    };
  };
  const names = Object.keys(unwatched) as (keyof Moments)[];
  return Object.fromEntries(names.map((name) => [name, of(name)])) as unknown as Moments;
}
