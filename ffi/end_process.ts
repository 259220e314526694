// The end of this process, from any thread and whatever the others are doing. Imports nothing.

/** Deno.exit ends only the worker it is called in. Nothing is cleaned up: what must be written is written before. */
export function endProcess(code: number): never {
  const { symbols } = Deno.dlopen("libc.so.6", { _exit: { parameters: ["i32"], result: "void" } });
  symbols._exit(code);
  throw new Error("internal: _exit came back.");
}
