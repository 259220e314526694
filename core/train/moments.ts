// The named moments of a run, in the order of a step, and who watches them. A moment that nobody watches is an empty function.
import type { Control } from "../ranks/control/control.ts";
import { type Account, COMPUTE, COPY, EVALUATION, OPTIMIZER, REST, SAVE } from "../run/account.ts";

export interface Moments {
  /** The next step waits for its data, now and at every look for it. Training goes on when a promise is kept. */
  waiting(step: number): Promise<void> | null | void;
  /** A step begins; `logged`: it becomes an event. */
  stepping(step: number, logged: boolean): void;
  /** Its batches are on the device; the first has so many rows. */
  fed(rows: number): void;
  /** The gradient is that of the global batch. */
  reduced(): void;
  /** It is clipped, and the update waits for a save that still copies the weights. */
  clipped(): void;
  held(): void;
  updated(): void;
  /** The whole step is queued; `step` counts it. */
  stepped(step: number): void;
  /** The numbers of the step before are there, and are told. */
  arrived(): void;
  told(): void;
  /** The feed has begun with the rows of the next step. */
  ahead(): void;
  /** All of the step is behind, going back to an earlier checkpoint included. */
  over(): void;
  /** The step was left in its middle. */
  aborted(): void;
  rewinding(): void;
  evaluating(): void;
  evaluated(): void;
  saving(): void;
  saved(): void;
}

export type Observer = Partial<Moments>;

const nothing = () => {};

/** Nobody watches. */
export const unwatched: Moments = {
  ...{ waiting: nothing, stepping: nothing, fed: nothing, reduced: nothing, clipped: nothing, held: nothing },
  ...{ updated: nothing, stepped: nothing, arrived: nothing, told: nothing, ahead: nothing, over: nothing },
  ...{
    aborted: nothing,
    rewinding: nothing,
    evaluating: nothing,
    evaluated: nothing,
    saving: nothing,
    saved: nothing,
  },
};

type Act = (a?: unknown, b?: unknown) => Promise<void> | null | void;

/** Observers come in their order; the first promise among their answers is the answer. */
export function momentsFor(observers: readonly (Observer | null)[]): Moments {
  const of = (name: keyof Moments): Act => {
    const all = observers.flatMap((one) => one?.[name] ? [one[name] as Act] : []);
    if (all.length < 2) return all[0] ?? nothing;
    return (a, b) => {
      let answer: Promise<void> | null = null;
      for (let i = 0; i < all.length; i++) answer = all[i](a, b) ?? answer;
      return answer;
    };
  };
  const names = Object.keys(unwatched) as (keyof Moments)[];
  return Object.fromEntries(names.map((name) => [name, of(name)])) as unknown as Moments;
}

/** The account gives the time since the last moment to what it was spent for. */
export function accounting({ lap }: Pick<Account, "lap">, onGpu: boolean): Observer {
  const rest = () => lap(REST), copy = () => lap(COPY), update = () => lap(OPTIMIZER), save = () => lap(SAVE);
  return {
    waiting: rest,
    fed: copy,
    reduced: () => lap(COMPUTE),
    clipped: update,
    held: save,
    updated: update,
    ...(onGpu && { arrived: () => lap(COMPUTE) }),
    told: rest,
    ahead: copy,
    evaluating: rest,
    evaluated: () => lap(EVALUATION),
    saving: rest,
    saved: save,
  };
}

/** The control plane knows what a rank is at, and tells of those that are late. */
export const phases = ({ phase, step }: Pick<Control, "phase" | "step">): Observer => ({
  waiting: () => phase("data.next"),
  stepping: () => phase("forward"),
  stepped: step,
  rewinding: () => phase("starting"),
  evaluating: () => phase("evaluation"),
  saving: () => phase("save"),
});
