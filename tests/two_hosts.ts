// Two hosts, as network namespaces, and the cable between them. Test helper.
const NET = `${Deno.pid % 200}`;

export const HOSTS = ["a", "b"].map((side, i) => ({
  namespace: `hpctrain-${side}-${Deno.pid}`,
  card: `hpt${side}${Deno.pid}`.slice(0, 15),
  address: `10.213.${NET}.${i + 1}`,
}));

export const ip = (...args: string[]) =>
  new Deno.Command("ip", { args, stdout: "null", stderr: "null" }).outputSync().success;

/** What runs a program on one of them. */
export const on = (host: number): string[] => ["ip", "netns", "exec", HOSTS[host].namespace];

/** Takes root and the right to make namespaces, which containers often lack. */
export function connectHosts(): boolean {
  const [a, b] = HOSTS;
  const cable = ["link", "add", a.card, "netns", a.namespace, "type", "veth", "peer", "name", b.card];
  try {
    return HOSTS.every(({ namespace }) => ip("netns", "add", namespace)) &&
      ip(...cable, "netns", b.namespace) &&
      HOSTS.every(({ namespace, card, address }) =>
        ip("-n", namespace, "address", "add", `${address}/24`, "dev", card) &&
        ip("-n", namespace, "link", "set", card, "up") &&
        ip("-n", namespace, "link", "set", "lo", "up")
      );
  } catch {
    return false; // no such program
  }
}

export const removeHosts = () => HOSTS.forEach(({ namespace }) => ip("netns", "delete", namespace));

/** Whether there can be any. */
export const twoHostsPossible = (): boolean => {
  if (Deno.uid() !== 0) return false;
  try {
    return connectHosts();
  } catch {
    return false;
  } finally {
    try {
      removeHosts();
    } catch {
      // no such program
    }
  }
};
