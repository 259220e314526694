// Opens each library of a backend's row by the name that the table has for it, with all functions that the program asks of it:
// rows.ts KIND FOLDER_OF_LIBTORCH FUNCTIONS_AS_JSON, where functions have CUDA's names, by library. Writes what was opened.
import { join } from "paths";
import { BACKENDS, type GpuKind } from "../../ffi/gpu/backends.ts";

const [kind, folder, json] = Deno.args;
const functions: Record<string, string[]> = JSON.parse(json);
const backend = BACKENDS[kind as GpuKind];
const names = [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
/** As the loader of libtorch has it in memory: its path, by the beginning of its name. */
const begins = (beginning: string) => names.filter((name) => name.startsWith(beginning)).slice(0, 1);

const libraries: Record<string, readonly string[]> = {
  runtime: begins(backend.runtime),
  compiler: begins(backend.compiler),
  driver: backend.driver.includes(".so") ? [backend.driver] : begins(backend.driver),
  collectives: backend.collectives,
  management: backend.management,
  torch: [join(folder, backend.torch)],
};
Deno.dlopen(join(folder, "libtorch_cpu.so"), {}); // the others are loaded beside it

const opened = Object.entries(libraries).map(([library, paths]) => {
  for (const path of paths) {
    try {
      const all = (functions[library] ?? []).map(backend.symbol);
      const types = { parameters: [], result: "void", optional: true } as const;
      const { symbols } = Deno.dlopen(path, Object.fromEntries(all.map((name) => [name, types])));
      return [library, { path, found: all.length, missing: all.filter((name) => symbols[name] === null) }];
    } catch {
      // the next name
    }
  }
  return [library, null];
});
console.log(JSON.stringify(Object.fromEntries(opened)));
