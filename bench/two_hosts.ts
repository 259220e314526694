// Two hosts on one machine: network namespaces, and between them a cable of a set speed. Needs root, ip and tc (iproute2).
// May import std.

export interface Hosts {
  /** Words that start a program there. */
  readonly enter: readonly [readonly string[], readonly string[]];
  readonly addresses: readonly [string, string];
  readonly cards: readonly [string, string];
  /** Bytes that the first one has sent to the other. */
  sent(): number;
}

const said = (program: string, ...args: string[]): string => {
  const { success, stdout, stderr } = new Deno.Command(program, { args, stdin: "null" }).outputSync();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes).trim();
  if (!success) throw new Error(`${program} ${args.join(" ")}: ${text(stderr)}`);
  return text(stdout);
};

/** Tokens for what may be sent at once: as much as goes through in 2 ms, for a kernel whose clock ticks 500 times a second. */
const BURST_SECONDS = 0.002;

/** `rate`: bits a second, each way. The hosts are gone when `use` has ended. */
export async function withHosts<T>(rate: number, use: (hosts: Hosts) => Promise<T>): Promise<T> {
  const id = Deno.pid;
  const spaces = [`hpcbench-a-${id}`, `hpcbench-b-${id}`] as const;
  const cards = [`hba${id}`, `hbb${id}`] as const;
  const addresses = [
    `10.${200 + id % 50}.${(id >> 6) % 250}.1`,
    `10.${200 + id % 50}.${(id >> 6) % 250}.2`,
  ] as const;
  try {
    connect(spaces, cards, addresses, rate);
    return await use({
      enter: [["ip", "netns", "exec", spaces[0]], ["ip", "netns", "exec", spaces[1]]],
      addresses,
      cards,
      sent: () => {
        const shown = JSON.parse(said("ip", "-n", spaces[0], "-s", "-j", "link", "show", cards[0]));
        return shown[0].stats64.tx.bytes;
      },
    });
  } finally {
    for (const space of spaces) {
      try {
        said("ip", "netns", "delete", space);
      } catch {
        // it never was
      }
    }
  }
}

function connect(
  spaces: Hosts["addresses"],
  cards: Hosts["cards"],
  addresses: Hosts["addresses"],
  rate: number,
): void {
  const burst = Math.max(64 * 1024, Math.round(rate / 8 * BURST_SECONDS));
  try {
    for (const space of spaces) said("ip", "netns", "add", space);
    const [a, b] = cards;
    said("ip", "link", "add", a, "netns", spaces[0], "type", "veth", "peer", "name", b, "netns", spaces[1]);
    spaces.forEach((space, i) => {
      said("ip", "-n", space, "address", "add", `${addresses[i]}/24`, "dev", cards[i]);
      said("ip", "-n", space, "link", "set", cards[i], "up");
      said("ip", "-n", space, "link", "set", "lo", "up");
      const shape = ["root", "tbf", "rate", `${rate}bit`, "burst", `${burst}`, "latency", "50ms"];
      said("tc", "-n", space, "qdisc", "add", "dev", cards[i], ...shape);
    });
  } catch (error) {
    const why = error instanceof Deno.errors.NotFound
      ? "ip or tc is not installed (apt-get install iproute2)"
      : (error as Error).message;
    throw new Error(
      `Two hosts with a cable between them take root and the right to make namespaces: ${why}.`,
    );
  }
}
