// Our side of the loader benchmark. Arguments: what to do, then settings as on the command line.
// bench/peers/loader.py is the other side and says what there is to do. It begins as `hpctrain train` does, libtorch
// on its way while the rest of the program is loaded.
import { resolveSettings } from "../core/settings/resolve.ts";
import { beginLoading } from "../core/train/device.ts";

const [what, ...argv] = Deno.args;
const resolved = resolveSettings({ argv, env: {} });
beginLoading(resolved.config);
const { readAs } = await import("./loader_reading.ts");
await readAs(what, resolved);
Deno.exit(0); // loader threads may still be reading ahead
