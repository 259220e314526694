// How checks ask the machine: files that may not be there, programs that may hang. Imports nothing.

/** A file's text, or nothing. */
export function textOf(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}

export function namesIn(folder: string): string[] {
  try {
    return [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
  } catch {
    return [];
  }
}

/** The first program of this name on PATH. */
export function onPath(name: string, env: Readonly<Record<string, string>>): string | null {
  for (const folder of (env.PATH ?? "").split(":").filter((at) => at.startsWith("/"))) {
    try {
      const file = Deno.statSync(`${folder}/${name}`);
      if (file.isFile && ((file.mode ?? 0o111) & 0o111) !== 0) return `${folder}/${name}`;
    } catch { /* the next */ }
  }
  return null;
}

/** A scheduler whose server is gone lets its programs wait for minutes. */
const PATIENCE_MS = 3000;

/** What a program prints; null where it can't be started, fails, or takes too long. */
export async function said(program: string, args: string[], patience = PATIENCE_MS): Promise<string | null> {
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(), patience);
  try {
    const { success, stdout, stderr } = await new Deno.Command(program, {
      args,
      stdin: "null",
      signal: over.signal,
      env: { OMPI_ALLOW_RUN_AS_ROOT: "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1" },
    }).output();
    const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    return success ? text.trim() : null;
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
  }
}
