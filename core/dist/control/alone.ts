// The control plane of a world of one: no thread, no socket. May import control (types), messages (types).
import type { Control } from "./control.ts";
import type { Agreed, Hello } from "./messages.ts";

export function alone(hello: Hello): Control {
  let due: Agreed | null = null;
  let count = 0;
  return {
    seats: [hello],
    met: "",
    step() {},
    phase() {},
    here() {
      count++;
      const now = due;
      due = null;
      return now && { ...now, at: count };
    },
    ahead: () => due && { what: due.what, reason: due.reason, places: 1 },
    wish: (what, reason) => void (due = due?.what === "stop" ? due : { at: 0, what, reason }),
    barrier() {},
    gather: (_, value) => [value],
    key: new Uint8Array(0),
    ends: { own: "127.0.0.1", server: "127.0.0.1" },
    broadcast: <T>(value?: T) => value as T,
    broadcastBytes: (bytes) => bytes!,
    fail() {},
    error: () => null,
    runFolder() {},
    close: () => Promise.resolve(),
  };
}
