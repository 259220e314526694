// Whether there is something at a path that can be looked at. Imports nothing.

export function isThere(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}
