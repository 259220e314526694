// Opens a library so that what it loads itself sees its symbols; libtorch also in a thread of the system's. It is there
// before most of this program is.
import type { Libtorch } from "./libraries/types.ts";
import { settleSpin } from "./spin.ts";

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

export const mainOf = ({ dir }: Libtorch): string => `${dir}/libtorch_cpu.so`;

/** Does what takes most of opening it beside what this thread does meanwhile; whether it opens, openLibtorch says. */
export async function loadBeside(lib: Libtorch): Promise<void> {
  settleSpin();
  await preloadBeside(mainOf(lib));
}

/**
 * The same in a thread of the system's, while this one goes on: libtorch's own start takes a quarter of a second. A
 * failure shows in the call after, here too.
 */
async function preloadBeside(path: string): Promise<void> {
  const loader = Deno.dlopen("libdl.so.2", {
    dlopen: { parameters: ["pointer", "i32"], result: "pointer", nonblocking: true },
  });
  const libc = Deno.dlopen("libc.so.6", {
    strdup: { parameters: ["buffer"], result: "pointer" },
    free: { parameters: ["pointer"], result: "void" },
  });
  // Not memory of JavaScript's: it may be moved or collected while the call is under way.
  const name = libc.symbols.strdup(new TextEncoder().encode(path + "\0"));
  try {
    await loader.symbols.dlopen(name, RTLD_LAZY | RTLD_GLOBAL);
  } finally {
    libc.symbols.free(name);
    libc.close();
    loader.close();
  }
}
