// What the system does with a signal when no JavaScript can run. Imports nothing.

const SIGINT = 2, SIGXFSZ = 25;
const DEFAULT = 0n, IGNORE = 1n;

/** From here on Ctrl-C ends the process at once, even in the middle of a native call or a long write. */
export const endOnInterrupt = (): void => handle(SIGINT, DEFAULT);

/** From here on a write beyond `ulimit -f` fails like one to a full disk, and does not end the process. */
export const failBeyondFileLimit = (): void => handle(SIGXFSZ, IGNORE);

function handle(signal: number, how: bigint): void {
  const libc = Deno.dlopen("libc.so.6", {
    signal: { parameters: ["i32", "usize"], result: "usize" },
  });
  libc.symbols.signal(signal, how);
  libc.close();
}
