// Hosts on one machine: network namespaces, and a bridge between them to which each sends at a set speed. Needs root, ip and
// tc (iproute2).
import { messageOf } from "../core/base/errors.ts";

export interface Hosts {
  /** Words that start a program there. */
  readonly enter: readonly (readonly string[])[];
  readonly addresses: readonly string[];
  readonly cards: readonly string[];
  /** Bytes that the first one has sent. */
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

interface Place {
  readonly space: string;
  readonly card: string;
  readonly address: string;
}

/** `rate`: bits a second that each host sends. The hosts are gone when `use` has ended. */
export async function withHosts<T>(
  count: number,
  rate: number,
  use: (hosts: Hosts) => Promise<T>,
): Promise<T> {
  const id = Deno.pid, bridge = `hpcbench-${id}`;
  const places = Array.from({ length: count }, (_, i): Place => ({
    space: `hpcbench-${i}-${id}`,
    card: `hb${i}x${id}`,
    address: `10.${200 + id % 50}.${(id >> 6) % 250}.${i + 1}`,
  }));
  try {
    connect(bridge, places, rate);
    return await use({
      enter: places.map(({ space }) => ["ip", "netns", "exec", space]),
      addresses: places.map(({ address }) => address),
      cards: places.map(({ card }) => card),
      sent: () => {
        const [{ space, card }] = places;
        return JSON.parse(said("ip", "-n", space, "-s", "-j", "link", "show", card))[0].stats64.tx.bytes;
      },
    });
  } finally {
    for (const space of [bridge, ...places.map(({ space }) => space)]) {
      try {
        said("ip", "netns", "delete", space);
      } catch {
        // it never was
      }
    }
  }
}

/** The bridge has a namespace of its own. */
function connect(bridge: string, places: readonly Place[], rate: number): void {
  const burst = Math.max(64 * 1024, Math.round(rate / 8 * BURST_SECONDS));
  const shape = ["root", "tbf", "rate", `${rate}bit`, "burst", `${burst}`, "latency", "50ms"];
  try {
    said("ip", "netns", "add", bridge);
    said("ip", "-n", bridge, "link", "add", "hosts", "type", "bridge");
    said("ip", "-n", bridge, "link", "set", "hosts", "up");
    for (const { space, card, address } of places) {
      said("ip", "netns", "add", space);
      const end = `p${card}`;
      said("ip", "link", "add", card, "netns", space, "type", "veth", "peer", "name", end, "netns", bridge);
      said("ip", "-n", bridge, "link", "set", end, "master", "hosts");
      said("ip", "-n", bridge, "link", "set", end, "up");
      said("ip", "-n", space, "address", "add", `${address}/24`, "dev", card);
      said("ip", "-n", space, "link", "set", card, "up");
      said("ip", "-n", space, "link", "set", "lo", "up");
      said("tc", "-n", space, "qdisc", "add", "dev", card, ...shape);
    }
  } catch (error) {
    const why = error instanceof Deno.errors.NotFound
      ? "ip or tc is not installed (apt-get install iproute2)"
      : messageOf(error);
    throw new Error(`Hosts with a network between them take root and the right to make namespaces: ${why}.`);
  }
}

/** Words that keep a program on one core. */
export const onCore = (core: number): string[] => ["taskset", "--cpu-list", `${core}`];
