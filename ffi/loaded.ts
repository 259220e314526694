// Which file a library that is loaded already came from. May import nothing.

/** The path of a loaded library whose file name begins with `name`, from /proc/self/maps; else the bare name. */
export function libraryNamed(name: string): string {
  for (const line of Deno.readTextFileSync("/proc/self/maps").split("\n")) {
    const path = line.slice(line.indexOf("/"));
    if (path.includes(`/${name}`)) return path.trim();
  }
  return name;
}
