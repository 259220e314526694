// Every pair of nodes once, as many at a time as there can be: the rounds of a tournament. Pure; imports nothing.

export type Pair = readonly [number, number];

/** Of each round the pairs, none of which share a node: n - 1 rounds for an even number of nodes, n for an odd one. */
export function tournament(nodes: number): Pair[][] {
  const seats = Array.from({ length: nodes + nodes % 2 }, (_, i) => i);
  const rounds: Pair[][] = [];
  for (let round = 0; round < seats.length - 1; round++) {
    const pairs = Array.from({ length: seats.length / 2 }, (_, i) => [seats[i], seats[seats.length - 1 - i]]);
    rounds.push(
      pairs.filter((pair) => pair.every((node) => node < nodes)) // with an odd one out, who meets nobody rests
        .map(([a, b]): Pair => a < b ? [a, b] : [b, a]),
    );
    seats.splice(1, 0, seats.pop()!); // the first stays, the others move on
  }
  return rounds;
}
