// A product that is only copied to another place is written there at once: a head's part of an attention's result, which
// lies among those of the other heads.
import type { GemmKernel, StridedAccess } from "./kernel.ts";
import { type Buffer, buffersRead, buffersWritten, type ProgramPart } from "./program.ts";

/** The elements that a strided access reaches. */
interface Region {
  readonly access: StridedAccess;
  readonly sizes: readonly number[];
}

interface Copy {
  readonly from: StridedAccess;
  readonly to: StridedAccess;
  readonly sizes: readonly number[];
}

export function withDestinations(parts: readonly ProgramPart[], buffers: readonly Buffer[]): ProgramPart[] {
  const done: (ProgramPart | null)[] = [...parts];
  const readers = readersIn(parts), writers = writersIn(parts);
  parts.forEach((part, at) => {
    const copy = copyOf(part);
    if (copy === null) return;
    const { from: { slot }, to } = copy;
    if (readers.get(slot) !== 1 || slot === to.slot) return;
    if (buffers[slot].home.from !== "arena" || buffers[to.slot].home.from !== "arena") return;
    const moved = redirected(done, at, copy, writers.get(slot) ?? [], buffers[slot].elements);
    if (moved === null) return;
    for (const [i, product] of moved) {
      done[i] = product;
      writers.get(slot)!.delete(i);
      writers.get(to.slot)!.add(i);
    }
    done[at] = null;
  });
  return done.filter((part) => part !== null);
}

/** How many parts read each buffer. */
function readersIn(parts: readonly ProgramPart[]): Map<number, number> {
  const readers = new Map<number, number>();
  const note = (part: ProgramPart) => {
    for (const slot of buffersRead(part)) readers.set(slot, (readers.get(slot) ?? 0) + 1);
  };
  for (const part of parts) note(part);
  return readers;
}

/** The places of the parts that write each buffer. */
function writersIn(parts: readonly ProgramPart[]): Map<number, Set<number>> {
  const writers = new Map<number, Set<number>>();
  parts.forEach((part, at) => {
    for (const slot of buffersWritten(part)) {
      const known = writers.get(slot);
      if (known) known.add(at);
      else writers.set(slot, new Set([at]));
    }
  });
  return writers;
}

function copyOf(part: ProgramPart): Copy | null {
  if (part.kernel !== "group" || part.stages.length !== 1) return null;
  const [{ instructions, stores, reductions }] = part.stages;
  if (instructions.length !== 1 || stores.length !== 1 || reductions.length > 0) return null;
  const [load] = instructions, [{ to }] = stores;
  return "from" in load && load.from.kind === "f32" && to.kind === "f32"
    ? { from: load.from, to, sizes: part.sizes }
    : null;
}

/** The products that make what is copied, written to the copy's place; null where that is not what they do, or too early. */
function redirected(
  parts: readonly (ProgramPart | null)[],
  at: number,
  copy: Copy,
  writers: Iterable<number>,
  elements: number,
): Map<number, GemmKernel> | null {
  const destination = destinationOf(copy, elements);
  if (destination === null) return null;
  const moved = new Map<number, GemmKernel>();
  for (const i of writers) {
    const part = parts[i];
    if (part === null) continue;
    if (part.kernel !== "gemm" || part.add || part.epilogue !== null || i > at) return null;
    if (buffersRead(part).has(copy.to.slot)) return null;
    const c = destination(part);
    if (c === null) return null;
    moved.set(i, { ...part, c });
  }
  const first = Math.min(...moved.keys());
  for (let i = first + 1; i < at; i++) {
    const part = parts[i];
    if (part === null || moved.has(i)) continue;
    if (buffersRead(part).has(copy.to.slot)) return null;
    if (buffersWritten(part).has(copy.to.slot) && !writesBeside(part, copy)) return null;
  }
  return moved;
}

/** Finds C of a product whose numbers the copy takes to their place; null where its rows or columns are torn apart. */
function destinationOf(
  { from, to, sizes }: Copy,
  elements: number,
): ((product: GemmKernel) => StridedAccess | null) | null {
  const dims = sizes.flatMap((size, dim) => size > 1 ? [dim] : []).sort((a, b) =>
    from.strides[a] - from.strides[b]
  );
  let next = 1;
  for (const dim of dims) {
    if (from.strides[dim] !== next) return null;
    next *= sizes[dim];
  }
  if (next !== elements || from.offset !== 0) return null;
  const digit = (offset: number, dim: number) => Math.floor(offset / from.strides[dim]) % sizes[dim];
  /** The dimension that steps go along, how far they reach in it, and their stride behind the copy. */
  const along = (step: number, count: number): { dim: number; reach: number; stride: number } | null => {
    const dim = dims.findLast((one) => from.strides[one] <= step);
    if (dim === undefined || step % from.strides[dim] !== 0) return null;
    const digits = step / from.strides[dim];
    return { dim, reach: (count - 1) * digits, stride: digits * to.strides[dim] };
  };
  return ({ m, n, c: { offset, strides, kind } }) => {
    if (m === 1 || n === 1) return null;
    const row = along(strides[0], m), column = along(strides[1], n);
    if (row === null || column === null) return null;
    const reaches = (dim: number) =>
      [row, column].reduce((sum, one) => one.dim === dim ? sum + one.reach : sum, 0);
    if ([row.dim, column.dim].some((dim) => digit(offset, dim) + reaches(dim) >= sizes[dim])) return null;
    if (row.stride !== 1 && column.stride !== 1) return null;
    const begin = dims.reduce((sum, dim) => sum + digit(offset, dim) * to.strides[dim], to.offset);
    return { slot: to.slot, offset: begin, strides: [row.stride, column.stride], kind };
  };
}

/** True where this part writes other columns of the copy's buffer than the copy does, or rows before or behind it. */
function writesBeside(part: ProgramPart, { to, sizes }: Copy): boolean {
  const region = writtenBy(part);
  return region !== null && disjoint(region, { access: to, sizes });
}

function writtenBy(part: ProgramPart): Region | null {
  if (part.kernel === "gemm" && part.epilogue === null) return { access: part.c, sizes: [part.m, part.n] };
  const copy = copyOf(part);
  return copy && { access: copy.to, sizes: copy.sizes };
}

function disjoint(a: Region, b: Region): boolean {
  const [beginA, endA] = rangeOf(a), [beginB, endB] = rangeOf(b);
  if (endA <= beginB || endB <= beginA) return true;
  const rows = a.access.strides.filter((stride) => stride > 1 && b.access.strides.includes(stride));
  return rows.some((row) => {
    const one = columnsOf(a, row), other = columnsOf(b, row);
    return one !== null && other !== null && (one[1] <= other[0] || other[1] <= one[0]);
  });
}

function rangeOf({ access, sizes }: Region): [number, number] {
  const reach = sizes.reduce((sum, size, dim) => sum + (size - 1) * access.strides[dim], 1);
  return [access.offset, access.offset + reach];
}

/** The columns of rows of this length that a region has numbers in. */
function columnsOf({ access: { offset, strides }, sizes }: Region, row: number): [number, number] | null {
  const begin = offset % row;
  let end = begin + 1;
  for (const [dim, stride] of strides.entries()) {
    if (stride < row) end += (sizes[dim] - 1) * stride;
    else if (stride % row !== 0) return null;
  }
  return end <= row ? [begin, end] : null;
}
