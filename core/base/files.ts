// The existence and sameness of paths, and locks on files and folders that end with the process, however it ends.

/** Through links; null where nothing can be seen. */
export function statOf(path: string): Deno.FileInfo | null {
  try {
    return Deno.statSync(path);
  } catch {
    return null;
  }
}

export const pathExists = (path: string): boolean => statOf(path) !== null;

export const isFile = (path: string): boolean => statOf(path)?.isFile ?? false;

export const isFolder = (path: string): boolean => statOf(path)?.isDirectory ?? false;

/** Null where it can't be read. */
export function readText(path: string): string | null {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return null;
  }
}

/** The names in it, in order; none where it can't be read. */
export function entriesIn(folder: string): string[] {
  try {
    return [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
  } catch {
    return [];
  }
}

/** False where one of them is not there. */
export function isSamePath(one: string, other: string): boolean {
  try {
    return Deno.realPathSync(one) === Deno.realPathSync(other);
  } catch {
    return false;
  }
}

const O_RDONLY_CLOEXEC = 0o2000000, LOCK_EX_NB = 2 | 4;

/** False means that another process holds the lock. A file system without locks gives true. */
export const lockFolder = (folder: string): boolean => holdFolder(folder) !== null;

/** The lock lasts until the returned function is called; null means that somebody else holds it. */
export function holdFolder(folder: string): (() => void) | null {
  return hold(folder, folder);
}

export const holdFile = (file: string, beside: string): (() => void) | null => hold(file, beside);

function hold(path: string, folder: string): (() => void) | null {
  const release = flock(path);
  if (release) return release;
  // A new folder that nobody else knows tells a held lock from a file system without locks.
  let probe: string;
  try {
    probe = Deno.makeTempDirSync({ dir: folder, prefix: ".lock-" });
  } catch {
    return () => {}; // whoever writes there next says what is wrong with it
  }
  const possible = flock(probe);
  possible?.();
  return removed(probe) && !possible ? () => {} : null;
}

/** False means that the folder was gone: the last holder removed it. */
function removed(folder: string): boolean {
  try {
    Deno.removeSync(folder);
    return true;
  } catch {
    return false;
  }
}

function flock(path: string): (() => void) | null {
  return withLibc(({ open, flock, close }) => {
    const descriptor = open(new TextEncoder().encode(`${path}\0`), O_RDONLY_CLOEXEC);
    if (descriptor >= 0 && flock(descriptor, LOCK_EX_NB) === 0) {
      return () => withLibc(({ close }) => close(descriptor)); // until then it stays open: closed, the lock ends
    }
    if (descriptor >= 0) close(descriptor);
    return null;
  });
}

const SYMBOLS = {
  open: { parameters: ["buffer", "i32"], result: "i32" },
  flock: { parameters: ["i32", "i32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
} as const;

function withLibc<R>(use: (libc: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"]) => R): R {
  const libc = Deno.dlopen("libc.so.6", SYMBOLS);
  try {
    return use(libc.symbols);
  } finally {
    libc.close();
  }
}

export const isPython = (path: string): boolean => path.endsWith(".py");
