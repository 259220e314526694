// `--compile=auto` on a CPU: steps are compiled as `exact` has it, where that pays and is faster. Both ways have the same bits,
// so a run may change from one to the other at any step, each rank by its own clock, and a run that goes on may choose anew.
//
//   op by op ── the steps to come would take several times what a plan costs ──> in turn ── the medians ──┬─> compiled
//                                                                                                         └─> op by op
import { formatMilliseconds } from "../base/format.ts";
import type { Choice, ChoiceInTurn } from "./compiler.ts";

/** A plan costs about so many milliseconds, and so many micro-batches that are computed to judge it. */
const MAKING_MS = 100, JUDGING = 10;

/** It pays where all that is to come takes so many times as long. */
const PAYS = 3;

/** The first micro-batches of a kind take longer than later ones. */
const WARM_UP = 3;

/** A run of so few micro-batches makes no plan, however long they take. */
export const neverPays = (batches: number): boolean => batches <= WARM_UP + PAYS * JUDGING;

/** Both ways are taken so often, or until one was so many times as fast in two turns. */
const TURNS = 5, CLEAR = 1.2;

/** A run has so many micro-batches. */
export function openAutoChoice(batches: number, tell: (line: string) => void): Choice {
  const whileTraining = new InTurn(batches, tell);
  return {
    get compiled() {
      return whileTraining.compiled;
    },
    compare: () => {},
    whileTraining,
  };
}

class InTurn implements ChoiceInTurn {
  compiled = true;
  open = true;
  next: ChoiceInTurn["next"] = "compiled";
  #shortest = Infinity;
  #last = NaN;
  readonly #times = { compiled: [] as number[], "op by op": [] as number[] };

  constructor(readonly batches: number, readonly tell: (line: string) => void) {}

  pays(alike: number, seen: number): boolean {
    const now = performance.now();
    if (now - this.#last < this.#shortest) this.#shortest = now - this.#last;
    this.#last = now;
    if (alike <= WARM_UP) return false;
    const toCome = (alike / seen) * (this.batches - seen) * this.#shortest;
    return toCome > PAYS * (MAKING_MS + JUDGING * this.#shortest);
  }

  took(milliseconds: number): void {
    const { compiled, "op by op": ordinary } = this.#times;
    this.#times[this.next].push(milliseconds);
    this.next = this.next === "compiled" ? "op by op" : "compiled";
    if (ordinary.length < compiled.length) return;
    const [own, theirs] = [compiled, ordinary].map((all) => all.slice(1).sort((a, b) => a - b)); // the first ones warm up
    if (own.length < 2 || own.length < TURNS && !isClear(own, theirs)) return;
    this.open = false;
    const [mine, other] = [own, theirs].map((all) => all[all.length >> 1]);
    this.compiled = mine < other;
    if (this.compiled) return;
    this.tell(
      `Steps run op by op from here on: forward and backward take ${formatMilliseconds(other)} so and ` +
        `${formatMilliseconds(mine)} compiled ` +
        "(--compile=exact compiles them all the same, with the same bits).",
    );
  }
}

/** Both are sorted. */
const isClear = (one: readonly number[], other: readonly number[]): boolean =>
  CLEAR * one.at(-1)! < other[0] || CLEAR * other.at(-1)! < one[0];
