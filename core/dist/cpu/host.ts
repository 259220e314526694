// Which ranks are on one host, whatever name each gives it: they can map each other's memory, or reach each other at 127.0.0.1.

export interface Host {
  /** The same for processes of one kernel that see each other, and for no others. */
  readonly memory: string;
  /** The same for processes that have one loopback device. */
  readonly loopback: string;
}

export function hostHere(): Host {
  try {
    const boot = Deno.readTextFileSync("/proc/sys/kernel/random/boot_id").trim();
    const [memory, loopback] = ["pid", "net"].map((kind) =>
      `${boot} ${Deno.readLinkSync(`/proc/self/ns/${kind}`)}`
    );
    return { memory, loopback };
  } catch {
    return { memory: Deno.hostname(), loopback: Deno.hostname() }; // a sandbox that hides them
  }
}
