// Opens a library so that what it loads itself sees its symbols. Imports nothing.

const RTLD_LAZY = 1, RTLD_GLOBAL = 0x100;

/**
 * Deno opens libraries for itself alone; plug-ins (MKL's kernels in conda's libtorch, the components of an older
 * Open MPI) want to see the symbols of the library they belong to. Opened this way first, they do. A failure shows in
 * the call after, with the loader's words.
 */
export function preload(path: string): void {
  const loader = Deno.dlopen("libdl.so.2", {
    dlopen: { parameters: ["buffer", "i32"], result: "pointer" },
  });
  loader.symbols.dlopen(new TextEncoder().encode(path + "\0"), RTLD_LAZY | RTLD_GLOBAL);
  loader.close(); // what it opened stays
}
