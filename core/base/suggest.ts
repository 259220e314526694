// The nearest known name to one that was mistyped: "did you mean".

const plain = (text: string): string => text.toLowerCase().replaceAll(/[-_ ]/g, "");

/** The one that differs in nothing but capitals and what joins its words: SimpleConvNet, single_gpu. */
export function sameName(name: string, known: readonly string[]): string | undefined {
  const same = known.filter((one) => plain(one) === plain(name));
  return same.length === 1 ? same[0] : undefined;
}

export function nearest(name: string, known: readonly string[]): string | null {
  const wanted = plain(name);
  // Arrays in groups have paths for names, and people say the last part.
  const inGroup = known.find((candidate) =>
    candidate.includes("/") && plain(candidate.slice(candidate.lastIndexOf("/") + 1)) === wanted
  );
  if (inGroup !== undefined) return inGroup;
  let best: string | null = null;
  let least = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const candidate of known) {
    const other = plain(candidate);
    if (Math.abs(wanted.length - other.length) >= least) continue; // at least as many letters differ
    const far = distance(wanted, other);
    if (far === Math.max(wanted.length, other.length)) continue; // nothing of the one is in the other
    if (far < least) [best, least] = [candidate, far];
  }
  if (best !== null || wanted.length < 3) return best;
  const longer = known.filter((candidate) => plain(candidate).startsWith(wanted));
  return longer.length === 1 ? longer[0] : null;
}

/** The nearest come first. */
export const byNearness = (name: string, known: readonly string[]): string[] =>
  known.map((one) => ({ one, far: distance(plain(name), plain(one)) }))
    .sort((a, b) => a.far - b.far || (a.one < b.one ? -1 : 1)).map(({ one }) => one);

/** The result follows a sentence: ` Did you mean "x"?`, or nothing. */
export function didYouMean(name: string, known: readonly string[]): string {
  const best = nearest(name, known);
  return best === null ? "" : ` Did you mean "${best}"?`;
}

/** It counts inserted, deleted and replaced letters, and swapped neighbours. */
function distance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      row[j] = Math.min(rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + same);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) row[j] = Math.min(row[j], rows[i - 2][j - 2] + 1);
    }
    rows.push(row);
  }
  return rows[a.length][b.length];
}
