// What a libtorch imports from NVIDIA's libraries: their names, and the symbols with their versions. From its binaries.
import { join } from "paths";

export interface NvidiaLibrary {
  /** "libcudart" */
  readonly name: string;
  /** "libcudart.so.13" */
  readonly soname: string;
  /** By symbol: its version, "" for none. */
  readonly symbols: Map<string, string>;
}

/** Symbols without a version belong to the library whose functions begin so. */
const UNVERSIONED: readonly [RegExp, string][] = [
  [/^cuFile/, "libcufile"],
  [/^cusparseLt/, "libcusparseLt"],
  [/^nccl/, "libnccl"],
  [/^nvshmem/, "libnvshmem_host"],
  [/^cu[A-Z]/, "libcuda"],
];

/** These are opened by name while the program runs. */
const OPENED = ["libcuda.so.1", "libnvidia-ml.so.1"];

export async function importsOf(folder: string): Promise<NvidiaLibrary[]> {
  const files = [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) =>
    /\.so(\.|$)/.test(name)
  );
  const found = new Map<string, NvidiaLibrary>();
  const library = (soname: string) => {
    const name = soname.split(".so")[0];
    if (!found.has(name)) found.set(name, { name, soname, symbols: new Map() });
  };
  for (const soname of OPENED) library(soname);
  const needs = await Promise.all(files.map((file) => output("readelf", ["-d", join(folder, file)])));
  for (const [, soname] of needs.join("\n").matchAll(/NEEDED.*\[(lib(?:cu|nv|nccl)[^\]]*)\]/g)) {
    library(soname);
  }
  for (const file of files) {
    for (const line of (await output("nm", ["-D", "--undefined-only", join(folder, file)])).split("\n")) {
      const [symbol, version = ""] = (line.trim().split(/\s+/).at(-1) ?? "").split(/@+/);
      found.get(ownerOf(symbol, version))?.symbols.set(symbol, version);
    }
  }
  return [...found.values()];
}

function ownerOf(symbol: string, version: string): string {
  if (version.includes(".so")) return version.split(".so")[0];
  if (version === "NVSHMEM") return "libnvshmem_host";
  return version === "" ? UNVERSIONED.find(([begins]) => begins.test(symbol))?.[1] ?? "" : "";
}

export async function output(program: string, args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  if (!success) throw new Error(`${program} ${args.join(" ")}:\n${text(stderr)}`);
  return text(stdout);
}
