// A lock that ends with the process, however that ends. Imports nothing.

const O_RDONLY_CLOEXEC = 0o2000000, LOCK_EX_NB = 2 | 4;

/**
 * Locks a folder for as long as this process lives; false if another process has it. On a file system that has no
 * locks it is true: nothing can be told there.
 */
export function lockFolder(folder: string): boolean {
  if (flock(folder)) return true;
  // Refused, or not to be had here? A folder that nobody else knows tells them apart.
  let probe: string;
  try {
    probe = Deno.makeTempDirSync({ dir: folder, prefix: ".lock-" });
  } catch {
    return true; // whoever writes there next says what is wrong with it
  }
  try {
    return !flock(probe);
  } finally {
    Deno.removeSync(probe);
  }
}

function flock(folder: string): boolean {
  const libc = Deno.dlopen("libc.so.6", {
    open: { parameters: ["buffer", "i32"], result: "i32" },
    flock: { parameters: ["i32", "i32"], result: "i32" },
  });
  try {
    const descriptor = libc.symbols.open(new TextEncoder().encode(`${folder}\0`), O_RDONLY_CLOEXEC);
    return descriptor >= 0 && libc.symbols.flock(descriptor, LOCK_EX_NB) === 0; // it stays open: closed, the lock would end
  } finally {
    libc.close();
  }
}
