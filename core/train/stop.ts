// Requests to stop or save: signals and files set a flag, the loop polls it. May import nothing of ours.

export interface Requests {
  /** Why the run should stop after a save, or null. */
  stop(): string | null;
  /** True once for each request to save now. */
  takeSave(): boolean;
  /**
   * Has `near` looked at as often as the files are: it gives the reason to stop when the time that is left is little more
   * than a save takes ("90 s of the job's time are left"), null until then.
   */
  watchTime(near: () => string | null): void;
  close(): void;
}

/** Polling the two files costs a system call each, so they are looked at this often. */
const LOOK_MS = 1000;

/** Without `runDir` signals alone count. `asked` hears of the first signal at once, long before the loop looks. */
export function watchRequests(
  runDir: string | null,
  secondInterrupt: () => void,
  asked: (reason: string) => void = () => {},
): Requests {
  let reason: string | null = null;
  let lookedAt = -Infinity;
  let save = false;
  let timeIsShort = (): string | null => null;
  const onSignal = (name: Deno.Signal) => () => {
    if (name === "SIGINT" && reason !== null) secondInterrupt();
    if (reason !== null) return;
    reason = name === "SIGINT" ? "Ctrl-C" : name;
    asked(reason);
  };
  const handlers = (["SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2"] as const).map((name) =>
    [name, onSignal(name)] as const
  );
  for (const [name, handler] of handlers) Deno.addSignalListener(name, handler);
  const look = () => {
    const now = performance.now();
    if (runDir === null || now - lookedAt < LOOK_MS) return;
    lookedAt = now;
    if (remove(`${runDir}/STOP`)) reason ??= "the file STOP";
    if (remove(`${runDir}/SAVE`)) save = true;
    reason ??= timeIsShort();
  };
  return {
    stop() {
      look();
      return reason;
    },
    takeSave() {
      look();
      const asked = save;
      save = false;
      return asked;
    },
    watchTime(near) {
      timeIsShort = near;
    },
    close() {
      for (const [name, handler] of handlers) Deno.removeSignalListener(name, handler);
    },
  };
}

function remove(path: string): boolean {
  try {
    Deno.removeSync(path);
    return true;
  } catch {
    return false; // not there: nobody asked
  }
}
