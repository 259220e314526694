// The host of a virtual machine gives its processors to others too. What it took away in a turn is no time of any side that
// is compared, so a turn that lost much is taken again. Imports nothing.

/** Of the processor time that was asked for in a turn. */
export const MOST = 0.01;
const TRIES = 4;

export interface Host {
  /** What the turn gives, or the one of several that lost least. */
  turn<T>(take: () => Promise<T>): Promise<T>;
  /** Of each turn that counts, the share of processor time that the host took. */
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
      let best: { value: Awaited<ReturnType<typeof take>>; share: number } | null = null;
      for (let i = 0; i < tries && (best === null || best.share > MOST); i++) {
        const before = stolen();
        const value = await take();
        const after = stolen();
        const share = (after.others - before.others) / Math.max(after.asked - before.asked, 1);
        if (best === null || share < best.share) best = { value, share };
      }
      taken.push(best!.share);
      return best!.value;
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
