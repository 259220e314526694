// A byte marks a row. A grid may have hundreds of millions of points, each a row, so these are plain loops.

export function countOf(marks: Uint8Array, mark: number): number {
  let count = 0;
  if (!marks.includes(mark)) return count; // which takes a quarter of the time
  for (let row = 0; row < marks.length; row++) count += Number(marks[row] === mark);
  return count;
}

/** Rows with the mark, in their order. */
export function rowsWith(marks: Uint8Array, mark: number): Int32Array {
  const rows = new Int32Array(countOf(marks, mark));
  if (rows.length === 0) return rows;
  for (let row = 0, at = 0; row < marks.length; row++) if (marks[row] === mark) rows[at++] = row;
  return rows;
}

/** Some of the rows with the mark, by their places among these, which ascend. */
export function someRowsWith(marks: Uint8Array, mark: number, places: Int32Array): Int32Array {
  const rows = new Int32Array(places.length);
  for (let row = 0, at = 0, place = 0; at < places.length; row++) {
    if (marks[row] === mark && place++ === places[at]) rows[at++] = row;
  }
  return rows;
}
