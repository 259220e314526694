// A long-lived process that answers rounds of steps, both its ends, and the turns of a comparison, which are taken
// again when the virtual machine's host took too much of them.
import { TextLineStream } from "../deps/streams.ts";
import type { Tensor } from "../ffi/tensor.ts";

export interface Round {
  readonly seconds: number;
  readonly loss: number;
  /** Most memory the process ever held, in bytes. */
  readonly peak: number;
  /** Bytes of the device that the process took since it opened it, where it tells. */
  readonly device?: number;
  /** Numbers that are trained, where the process tells. */
  readonly parameters?: number;
  /** Live tensors, where the process can tell. */
  readonly tensors?: number;
  /** Seconds of processor time that the process has used so far, where it tells. */
  readonly cpu?: number;
  /** Seconds from the first ordinary step's end to the first compiled one's. */
  readonly compiled?: number;
}

export interface Contestant {
  readonly pid: number;
  round(steps: number): Promise<Round>;
  /** A line of another kind, answered by a line of JSON. */
  ask<T>(line: string): Promise<T>;
  end(): Promise<void>;
}

/** Starts it and waits until it is ready; what it says on stderr is part of the error if it ends before. */
export async function startContestant(program: string, args: readonly string[]): Promise<Contestant> {
  const child = new Deno.Command(program, {
    args: [...args],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const complaint = new Response(child.stderr).text();
  const input = child.stdin.getWriter();
  const lines = linesOf(child.stdout);
  const next = async () => {
    const { value, done } = await lines.next();
    if (done) {
      await input.close().catch(() => {}); // nobody reads it any more
      await child.status;
      throw new Error(`${[program, ...args].join(" ")} ended: ${(await complaint).trim().slice(-4000)}`);
    }
    return JSON.parse(value);
  };
  await next();
  const ask = async (line: string) => {
    await input.write(new TextEncoder().encode(`${line}\n`));
    return await next();
  };
  return {
    pid: child.pid,
    round: (steps) => ask(`${steps}`),
    ask,
    async end() {
      await input.close();
      await child.status;
    },
  };
}

/** Each round's sides in turn, every other round backwards, so that a drift of the machine meets all alike. */
export function* turns<T>(
  sides: Iterable<T>,
  rounds: number,
  first = 0,
): Generator<[side: T, round: number]> {
  const order = [...sides];
  for (let round = first; round < rounds; round++) {
    for (const side of round % 2 === 0 ? order : order.toReversed()) yield [side, round];
  }
}

export async function* linesOf(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
): AsyncGenerator<string, void> {
  yield* stream.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream());
}

// Our contestant trains as many steps as each line of its input says and answers with a line of JSON.
// contestant.ts is the other end.

/** Trains that many steps; returns the last one's loss, the one value of a round that is read back. */
export type Train = (steps: number) => number;

/** `step` gets the number of each step since the start. */
export function trainer(step: (number: number) => { loss: Tensor }): Train {
  let number = 0;
  return (steps) => {
    let last = NaN;
    for (let i = 1; i <= steps; i++) {
      const { loss } = step(number++);
      if (i === steps) last = loss.item();
      loss.free();
    }
    return last;
  };
}

/** Says that it is ready, then answers until its input ends. */
export async function answerRounds(
  train: (steps: number) => number | Promise<number>,
  more: () => Record<string, number> = () => ({}),
): Promise<void> {
  const answer = (value: unknown) => console.log(JSON.stringify(value));
  answer({ ready: true });
  const chunk = new Uint8Array(64);
  for (let read = Deno.stdin.readSync(chunk); read !== null; read = Deno.stdin.readSync(chunk)) {
    const steps = Number(new TextDecoder().decode(chunk.subarray(0, read)));
    const began = performance.now();
    const loss = await train(steps);
    answer({ seconds: (performance.now() - began) / 1000, loss, peak: peakMemory(), ...more() });
  }
}

/** Seconds of processor time that this process has used so far: what a step costs, whatever else the machine does. */
export function processorTime(): number {
  const ticks = Deno.readTextFileSync("/proc/self/stat").split(") ")[1].split(" ");
  return (Number(ticks[11]) + Number(ticks[12])) / 100;
}

/** Most memory that this process ever held, in bytes. */
export function peakMemory(): number {
  const status = Deno.readTextFileSync("/proc/self/status");
  return Number(/VmHWM:\s*(\d+) kB/.exec(status)![1]) * 1024;
}

// The host of a virtual machine gives its processors to others too. What it took away in a turn is no time of any
// side that is compared, so a turn that lost much is taken again.

/** The largest share of a turn's processor time that the host may take. */
export const MOST = 0.01;
const TRIES = 4;

export interface Host {
  /** The turn's result, or that of the one of several that lost least. */
  turn<T>(take: () => Promise<T>): Promise<T>;
  /** The share of processor time that the host took of each turn that counts. */
  readonly taken: readonly number[];
  /** A sentence about them. */
  said(): string;
}

/** `stolen`: processor time so far that was asked for, and what of it went to others. */
export function openHost(stolen = stolenSoFar, tries = TRIES): Host {
  const taken: number[] = [];
  return {
    taken,
    async turn(take) {
      const once = async () => {
        const before = stolen();
        const value = await take();
        const after = stolen();
        return { value, share: (after.others - before.others) / Math.max(after.asked - before.asked, 1) };
      };
      let best = await once();
      for (let i = 1; i < tries && best.share > MOST; i++) {
        const next = await once();
        if (next.share < best.share) best = next;
      }
      taken.push(best.share);
      return best.value;
    },
    said() {
      const percent = (share: number) => `${(100 * share).toFixed(1)}%`;
      const mean = taken.reduce((sum, share) => sum + share, 0) / Math.max(taken.length, 1);
      return `Others on the machine's host took ${
        percent(mean)
      } of its processor time in the turns that count, at most ${
        percent(Math.max(0, ...taken))
      } in one: a turn that loses more than ${percent(MOST)} is taken again, ${tries - 1} times at most.`;
    },
  };
}

/** The first line of /proc/stat: ticks of user, nice, system, idle, waiting, interrupts (2), and stolen by the host. */
export function stolenSoFar(text = Deno.readTextFileSync("/proc/stat")): { asked: number; others: number } {
  const [user, nice, system, , , hard, soft, others = 0] = text.split("\n")[0].split(/ +/).slice(1).map(
    Number,
  );
  return { asked: user + nice + system + hard + soft + others, others };
}
