// What a rank does in the steps that are looked at, in memory: steps, their parts, the ops in them. May import ffi, account.
import { timeOps } from "../../../ffi/profile.ts";
import { type Account, PARTS } from "../account.ts";

/** Times in milliseconds of `performance.now`. */
export interface Spans {
  readonly names: readonly string[];
  /** Name, beginning, end; one after the other. Each lies within one of those below, or beside them. */
  readonly ops: readonly number[];
  readonly parts: readonly number[];
  /** The step's number in place of a name. */
  readonly steps: readonly number[];
  /** Ops that there was no room for. */
  readonly dropped: number;
}

export interface Recorder {
  /** A step is over, and with it the last lap. */
  step(number: number): void;
  /** Ends it. */
  end(): Spans;
}

/** Ops that are kept; a step of a large model has some thousands. */
const MOST = 200_000;

export function startRecorder(account: Account, most = MOST): Recorder {
  const numbers = new Map<string, number>(PARTS.map((name, i) => [name, i]));
  const ops: number[] = [], parts: number[] = [], steps: number[] = [];
  let dropped = 0, from = account.at;
  const stop = timeOps((name, from, to) => {
    if (ops.length >= 3 * most) return void dropped++;
    let number = numbers.get(name);
    if (number === undefined) numbers.set(name, number = numbers.size);
    ops.push(number, from, to);
  });
  account.hearer = (part, from, to) => void (to > from && parts.push(part, from, to));
  return {
    step(number) {
      steps.push(number, from, account.at);
      from = account.at;
    },
    end() {
      stop();
      account.hearer = null;
      return { names: [...numbers.keys()], ops, parts, steps, dropped };
    },
  };
}
