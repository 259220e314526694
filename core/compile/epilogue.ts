// Pointwise work on a product is done where the product is made: its numbers are in registers then.
import { type Buffer, buffersRead, buffersWritten, type ProgramPart } from "./program.ts";
import type { GemmKernel, GroupKernel, Instruction, Stage, StridedAccess } from "./kernel.ts";

export function withEpilogues(parts: readonly ProgramPart[], buffers: readonly Buffer[]): ProgramPart[] {
  const done: (ProgramPart | null)[] = [...parts];
  const readersOf = new Map<number, Set<number>>();
  const read = (part: ProgramPart, at: number) => {
    for (const buffer of buffersRead(part)) {
      const readers = readersOf.get(buffer);
      if (readers) readers.add(at);
      else readersOf.set(buffer, new Set([at]));
    }
  };
  parts.forEach(read);
  parts.forEach((part, at) => {
    if (part.kernel !== "gemm" || part.add || part.epilogue !== null) return;
    const { slot } = part.c;
    if (buffers[slot].home.from !== "arena" || buffers[slot].elements !== part.m * part.n) return;
    const readers = readersOf.get(slot);
    if (readers?.size !== 1) return;
    const [reader] = readers, group = done[reader]!;
    if (group.kernel !== "group" || reader < at || !mayMove(done, at, reader, slot)) return;
    const epilogue = epilogueOf(part, group);
    if (epilogue === null) return;
    const joined: ProgramPart = { ...part, name: `${part.name}, ${group.name}`, epilogue };
    done[at] = joined;
    done[reader] = null;
    for (const buffer of buffersRead(group)) readersOf.get(buffer)!.delete(reader);
    read(joined, at);
  });
  return done.filter((part) => part !== null);
}

/** The group may come as early as the product: what is between them makes nothing that it reads, and leaves what it writes alone. */
function mayMove(parts: readonly (ProgramPart | null)[], from: number, to: number, slot: number): boolean {
  const group = parts[to]!, reads = buffersRead(group), writes = buffersWritten(group);
  return parts.slice(from + 1, to).every((between) =>
    between === null ||
    [...buffersWritten(between)].every((one) => !writes.has(one) && (one === slot || !reads.has(one))) &&
      [...buffersRead(between)].every((one) => !writes.has(one))
  );
}

function epilogueOf({ m, n, c: { slot } }: GemmKernel, { sizes, stages }: GroupKernel): Stage | null {
  const [stage] = stages;
  if (stages.length > 1 || stage.reductions.length > 0) return null;
  const spread = (strides: readonly number[]): readonly number[] | null => {
    if (sizes.length === 2 && sizes[0] === m && sizes[1] === n) return strides;
    if (sizes.length !== 1 || sizes[0] !== m * n) return null;
    return [m > 1 ? strides[0] * n : 0, n > 1 ? strides[0] : 0];
  };
  if (spread(new Array(sizes.length).fill(0)) === null) return null;
  const strided = (one: StridedAccess): StridedAccess => ({ ...one, strides: spread(one.strides)! });
  const product = [m > 1 ? n : 0, n > 1 ? 1 : 0];
  const isProduct = (one: StridedAccess) =>
    one.slot === slot && one.offset === 0 && String(spread(one.strides)) === String(product);
  let fits = true;
  const instructions = stage.instructions.map((one): Instruction => {
    if (one.op !== "load") return one;
    const { from } = one as { from: StridedAccess };
    if (isProduct(from)) return { op: "load", from: { ...strided(from), slot: -1 } };
    fits &&= from.slot !== slot;
    return { op: "load", from: strided(from) };
  });
  if (!fits) return null;
  return {
    instructions,
    stores: stage.stores.map(({ value, to }) => ({ value, to: strided(to) })),
    reductions: [],
  };
}
