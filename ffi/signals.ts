// Signals of this process: who is told of them, and what the system does by itself.

const SIGHUP = 1, SIGINT = 2, SIGXFSZ = 25;
const IGNORE = 1n;
/** glibc's struct sigaction is no larger; all zeros are the default. */
const ACTION_BYTES = 152;

const SYMBOLS = {
  signal: { parameters: ["i32", "usize"], result: "usize" },
  sigaction: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
} as const;

/**
 * Calls `act` at each such signal until what it returns is called. With the first listener of any signal the
 * runtime takes SIGHUP too. Where nohup has it ignored it stays so, here and in the programs that are started
 * from here.
 */
export function onSignal(name: Deno.Signal, act: () => void): () => void {
  const ignored = isHangUpIgnored();
  Deno.addSignalListener(name, act);
  if (ignored && name !== "SIGHUP") ignore(SIGHUP);
  return () => {
    Deno.removeSignalListener(name, act);
    if (ignored) ignore(SIGHUP);
  };
}

/** It was ignored when the process began, as nohup starts one, and nobody here listens to it. */
export function isHangUpIgnored(): boolean {
  const [, mask] = /^SigIgn:\s*([0-9a-f]+)$/m.exec(Deno.readTextFileSync("/proc/self/status")) ?? [];
  return mask !== undefined && (BigInt(`0x${mask}`) >> BigInt(SIGHUP - 1) & 1n) === 1n;
}

let listeners: Uint8Array<ArrayBuffer> | null = null;

/** Ctrl-C ends the process at once, even in the middle of a native call or a long write. */
export function endOnInterrupt(): void {
  if (listeners !== null) return;
  const before = new Uint8Array(ACTION_BYTES);
  withLibc(({ sigaction }) => sigaction(SIGINT, new Uint8Array(ACTION_BYTES), before));
  listeners = before;
}

/** Takes that back: Ctrl-C is for those who listen. */
export function heedInterrupts(): void {
  const before = listeners;
  if (before === null) return;
  listeners = null;
  withLibc(({ sigaction }) => sigaction(SIGINT, before, null));
}

/** A write beyond `ulimit -f` fails like one to a full disk, and does not end the process. */
export const failBeyondFileLimit = (): void => ignore(SIGXFSZ);

const ignore = (signal: number): void => void withLibc((libc) => libc.signal(signal, IGNORE));

function withLibc<R>(use: (libc: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"]) => R): R {
  const libc = Deno.dlopen("libc.so.6", SYMBOLS);
  try {
    return use(libc.symbols);
  } finally {
    libc.close();
  }
}
