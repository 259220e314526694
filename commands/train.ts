// `hpctrain train`: what it is asked for. Then libtorch is on its way while the rest of the program is loaded, which takes
// as long. May import core/config, cluster/layout, dist/where, train/libtorch; the rest when needed.
import { refuseJobLayout, wishesIn } from "../core/cluster/layout.ts";
import { resolve } from "../core/config/resolve.ts";
import { placeFlags, whereAmI } from "../core/dist/where.ts";
import { beginLoading, loaded } from "../core/train/libtorch.ts";

export async function train(argv: string[]): Promise<number> {
  const env = Deno.env.toObject();
  const began = (Date.now() - performance.now()) / 1000; // of the process
  const settings = resolve({ argv, env }); // where this is may stand in them
  const where = whereAmI(env, placeFlags(settings.config.distributed));
  refuseJobLayout(env, where, wishesIn(settings.config));
  beginLoading(settings.config);
  try {
    const { trainHere } = await import("./train_here.ts");
    return await trainHere({ argv, env, began, settings, where });
  } finally {
    await loaded();
  }
}
