// Which chunks have a row in them, and where in each: arithmetic, done once. May import types only.
import type { ChunkRows } from "./rows.ts";

/** A run of bytes of a row that lie together in a chunk. */
export interface Piece {
  /** The chunk, counted from the one at the row's beginning. */
  readonly cell: number;
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
}

export interface ChunkGrid {
  readonly chunkBytes: number;
  readonly rowsInChunk: number;
  /** Of one row: chunk after chunk, in `cells` of them. */
  readonly pieces: readonly Piece[];
  readonly cells: number;
  /** The chunk at a row's beginning, and how many bytes the row is into its chunks. */
  placeOf(row: number): { cell: number; inside: number };
}

type Shape = Pick<ChunkRows, "shape" | "chunk" | "lead" | "width">;

export function gridOf({ shape, chunk, lead, width }: Shape): ChunkGrid {
  const grid = shape.map((size, d) => Math.ceil(size / chunk[d]));
  const gridSteps = steps(grid, 1), chunkSteps = steps(chunk, width);
  const place = { cell: 0, inside: 0 };
  return {
    chunkBytes: product(chunk) * width,
    rowsInChunk: product(chunk.slice(0, lead)),
    ...piecesOf(shape, chunk, lead, width),
    placeOf(row) {
      place.cell = place.inside = 0;
      for (let d = lead - 1, rest = row; d >= 0; d--) {
        const at = rest % shape[d];
        rest = Math.floor(rest / shape[d]);
        place.cell += Math.floor(at / chunk[d]) * gridSteps[d];
        place.inside += at % chunk[d] * chunkSteps[d];
      }
      return place;
    },
  };
}

function piecesOf(
  shape: readonly number[],
  chunk: readonly number[],
  lead: number,
  width: number,
): Pick<ChunkGrid, "pieces" | "cells"> {
  const rank = shape.length;
  // From dimension `run` on, a row and a chunk go on in the same way.
  let run = rank - 1;
  while (run > lead && chunk[run] === shape[run]) run--;
  const pieces: Piece[] = [];
  if (lead === rank) return { pieces: [{ cell: 0, from: 0, to: 0, bytes: width }], cells: 1 };
  const grid = shape.map((size, d) => Math.ceil(size / chunk[d]));
  const gridSteps = steps(grid, 1), chunkSteps = steps(chunk, width), rowSteps = steps(shape, width);
  let cells = 0;
  const inside = (d: number, cell: number, origin: readonly number[], from: number, to: number) => {
    const first = origin[d] * chunk[d];
    const length = Math.min(chunk[d], shape[d] - first);
    if (d === run) {
      pieces.push({ cell, from, to: to + first * rowSteps[d], bytes: length * rowSteps[d] });
      return;
    }
    for (let i = 0; i < length; i++) {
      inside(d + 1, cell, origin, from + i * chunkSteps[d], to + (first + i) * rowSteps[d]);
    }
  };
  const visit = (d: number, cell: number, origin: number[]) => {
    if (d === rank) {
      cells++;
      return inside(lead, cell, origin, 0, 0);
    }
    for (let g = 0; g < grid[d]; g++) {
      origin[d] = g;
      visit(d + 1, cell + g * gridSteps[d], origin);
    }
  };
  visit(lead, 0, shape.map(() => 0));
  return { pieces, cells };
}

/** From one index to the next in each dimension, row-major, where the last is `unit` apart. */
function steps(sizes: readonly number[], unit: number): number[] {
  const found = sizes.map(() => unit);
  for (let d = sizes.length - 2; d >= 0; d--) found[d] = found[d + 1] * sizes[d + 1];
  return found;
}

export const product = (sizes: readonly number[]): number => sizes.reduce((total, size) => total * size, 1);
