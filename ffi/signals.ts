// What the system does with a signal when no JavaScript can run. Imports nothing.

const SIGINT = 2;

/** From here on Ctrl-C ends the process at once, even in the middle of a native call or a long write. */
export function endOnInterrupt(): void {
  const { symbols } = Deno.dlopen("libc.so.6", {
    signal: { parameters: ["i32", "pointer"], result: "pointer" },
  });
  symbols.signal(SIGINT, null); // SIG_DFL
}
