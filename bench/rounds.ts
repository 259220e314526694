// What a contestant of ours does: trains as many steps as each line of its input says, answers with a line of JSON.
// contestant.ts is the other end. May import ffi.
import type { Tensor } from "../ffi/tensor.ts";

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
function peakMemory(): number {
  const status = Deno.readTextFileSync("/proc/self/status");
  return Number(/VmHWM:\s*(\d+) kB/.exec(status)![1]) * 1024;
}
