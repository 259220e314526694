// What an MPI library says it is, before anybody starts it: MPI allows this one question. May import mpi.
import { shortVersion } from "./mpi.ts";

const ROOM = 8192; // MPI_MAX_LIBRARY_VERSION_STRING of MPICH, the largest

/** "Open MPI 5.0.11"; or null where the library can't be loaded. */
export function mpiVersion(path: string): string | null {
  try {
    const { symbols, close } = libraryAt(path);
    const text = new Uint8Array(ROOM), length = new Int32Array(1);
    const code = symbols.MPI_Get_library_version(text, length);
    if (code !== 0) close();
    return code === 0 ? shortVersion(new TextDecoder().decode(text.subarray(0, length[0]))) : null;
  } catch {
    return null;
  }
}

/** Left open once it has answered: some MPI libraries don't survive being closed. */
function libraryAt(path: string) {
  const library = Deno.dlopen(path, {
    MPI_Get_library_version: { parameters: ["buffer", "buffer"], result: "i32" },
  });
  return { symbols: library.symbols, close: () => library.close() };
}
