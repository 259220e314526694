// What a loader thread reads a user's own data with: its library is this program's.
import type { Library } from "../core/models/user/library.ts";
import { threadKind } from "../core/data/user/reader.ts";

export const address: string = import.meta.url;

export default threadKind(address, async () => ({ ...await import("../mod.ts") } satisfies Library));
