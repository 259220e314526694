// A plan is cut where a bucket of gradients is whole: ranks reduce it while the rest of backward runs.
import { type Buffer, buffersRead, buffersWritten, type Program, type ProgramPart } from "./program.ts";

/** The gradients of these parameters are reduced together. */
export interface GradientCut {
  /** `done` is told of it. */
  readonly block: number;
  /** Numbers in the arena. */
  readonly parameters: readonly number[];
}

/** Nothing touches the gradients of this cut, and of those before it, behind this part. */
export interface CutPlace {
  readonly block: number;
  readonly part: number;
}

/** Buffers of one place are one memory. */
const memoryOf = (buffers: readonly Buffer[], buffer: number): string => {
  const { home } = buffers[buffer];
  return home.from === "arena" ? String(buffer) : JSON.stringify(home);
};

const memoriesOf = (buffers: readonly Buffer[], of: ReadonlySet<number>): string[] =>
  [...of].map((buffer) => memoryOf(buffers, buffer));

/**
 * Parts that only write gradients (copies, sums onto what is there) stand at the program's end; here each comes as soon
 * as what it reads is there. So values live shorter, and gradients are whole early.
 */
export function gradientsFirst({ parts, buffers }: Program): Program {
  const wrote = new Map<string, number>(), touched = new Map<string, number>();
  const behind: ProgramPart[][] = Array.from({ length: parts.length + 1 }, () => []);
  parts.forEach((part, i) => {
    const read = memoriesOf(buffers, buffersRead(part)), written = [...buffersWritten(part)];
    const own = memoriesOf(buffers, new Set(written));
    const moves = part.kernel === "group" && written.length > 0 &&
      written.every((buffer) => buffers[buffer].home.from === "gradient");
    const at = moves
      ? Math.max(-1, ...read.map((one) => wrote.get(one) ?? -1), ...own.map((one) => touched.get(one) ?? -1))
      : i;
    behind[at + 1].push(part);
    for (const one of own) wrote.set(one, Math.max(at, wrote.get(one) ?? -1));
    for (const one of [...read, ...own]) touched.set(one, Math.max(at, touched.get(one) ?? -1));
  });
  return { parts: behind.flat(), buffers };
}

/** The last part that touches the gradients of each cut. */
export function placesOf({ parts, buffers }: Program, cuts: readonly GradientCut[]): CutPlace[] {
  const last = new Map<number, number>();
  parts.forEach((part, i) => {
    for (const buffer of [...buffersRead(part), ...buffersWritten(part)]) {
      const { home } = buffers[buffer];
      if (home.from === "gradient") last.set(home.index, i);
    }
  });
  let part = -1;
  return cuts.map(({ block, parameters }) => {
    part = Math.max(part, ...parameters.map((index) => last.get(index) ?? -1));
    return { block, part };
  });
}
