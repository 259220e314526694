// The source files that the linters read.

/** A file itself, or those of a folder and the folders in it. */
export function sourceFiles(path: string): string[] {
  if (/\.[tj]s$/.test(path)) return [path];
  return [...Deno.readDirSync(path)].flatMap(({ name, isDirectory }) =>
    isDirectory || /\.[tj]s$/.test(name) ? sourceFiles(`${path}/${name}`) : []
  );
}
