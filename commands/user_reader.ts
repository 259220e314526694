// A loader thread reads a user's own data with this: its library is this program's.
import { withKnownNames } from "../core/models/user/named.ts";
import type { Library } from "../core/models/user/library.ts";
import { loaderThreadReader } from "../core/data/user/reader.ts";

export const address: string = import.meta.url;

export default loaderThreadReader(async () =>
  withKnownNames({ ...await import("../mod.ts") } satisfies Library)
);
