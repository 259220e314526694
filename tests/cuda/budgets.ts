// How much of something a step may ask of a GPU: less is no mistake.

export type Row = Readonly<Record<string, number>>;

/** What of a row is more than its budget, or has none: "launches: 41 of 40". */
export const overspent = (row: Row, budget: Row): string[] =>
  Object.entries(row).filter(([kind, count]) => !(count <= budget[kind]))
    .map(([kind, count]) => `${kind}: ${count} of ${budget[kind]}`);
