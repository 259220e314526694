// One number for all settings, to be compared between ranks. Imports nothing of ours but types.
import { createHash } from "node:crypto";
import type { Settings } from "./messages.ts";

/** Whatever the order in which they were given. */
export function hashOf(settings: Settings): string {
  const sorted = Object.keys(settings).sort().map((path) => [path, settings[path] ?? null]);
  return createHash("sha256").update(JSON.stringify(sorted)).digest("hex").slice(0, 16);
}
