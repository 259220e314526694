// The source files that the linters read.

/** A file itself, or those of a folder and the folders in it; an extension's tests are no part of the program. */
export function sourceFiles(path: string): string[] {
  if (/\.[tj]s$/.test(path)) return [path];
  return [...Deno.readDirSync(path)].flatMap(({ name, isDirectory }) => {
    const inside = `${path}/${name}`;
    if (/^extensions\/[^/]+\/tests$/.test(inside)) return [];
    return isDirectory || /\.[tj]s$/.test(name) ? sourceFiles(inside) : [];
  });
}

/** The folders of all extensions. */
export const extensionFolders = (): string[] =>
  [...Deno.readDirSync("extensions")].filter(({ isDirectory }) => isDirectory)
    .map(({ name }) => `extensions/${name}`).sort();
