// What this version can't do: refused where a run would be wrong, told where a setting has no effect.
// May import config, data, dist, errors.
import type { Resolved } from "../config/resolve.ts";
import { lookUp, read } from "../config/tree.ts";
import { isSimulated } from "../cosmology/options.ts";
import { hasColumns } from "../data/open.ts";
import { placeFlags, whereAmI } from "../dist/where.ts";
import { UserError } from "../errors.ts";
import { VERSION } from "../version.ts";

export function refuseManyRanks({ config, origin }: Resolved, env: Record<string, string>): void {
  const { world_size, nodes } = config.distributed;
  const asked = Math.max(world_size, nodes);
  if (asked > 1) {
    const [path, what] = world_size > 1
      ? ["distributed.world_size", "ranks"]
      : ["distributed.nodes", "nodes"];
    throw new UserError(
      "usage",
      `hpctrain ${VERSION} trains in one process, and ${
        origin(path)
      } asks for ${asked} ${what}: leave it out.`,
    );
  }
  // Each of them would train, and write, the whole run.
  const { world, said } = whereAmI(env, placeFlags(config.distributed));
  if (world === 1) return;
  throw new UserError(
    "usage",
    `${world} processes were started, and hpctrain ${VERSION} trains in one. ${said} ` +
      "Start one: srun --ntasks=1 ./hpctrain ..., or without a launcher.",
  );
}

const WITHOUT_EFFECT = [
  "training.compile",
  "training.profile_training",
  "wandb.mode",
  "wandb.project",
  "wandb.run_name",
  "wandb.entity",
  "wandb.tags",
  "distributed.backend",
  "distributed.rank",
  "distributed.local_rank",
  "distributed.master_addr",
  "distributed.master_port",
  "distributed.timeout",
  "distributed.gpus_per_node",
  "cluster.account",
  "cluster.partition",
  "cluster.time",
  "cluster.mem",
  "cluster.cpus_per_task",
];

/** These are about data in files, not about data that is made up. */
const OF_FILES = ["data.stage", "data.bad_samples"];
/** These say which columns of a file to use. */
const OF_COLUMNS = ["data.features", "data.targets"];

/** One line that names the settings somebody gave although this version does nothing with them. */
export function withoutEffect({ config, origin }: Resolved): string[] {
  const ofFiles = config.data.data_path === "" ? OF_FILES : [];
  const ofColumns = hasColumns(config.data)
    ? []
    : OF_COLUMNS.filter((path) => !(path === "data.targets" && isSimulated(config.data.type)));
  const without = [...WITHOUT_EFFECT, ...ofFiles, ...ofColumns];
  // A checkpoint, and what `config --yaml` prints, name every setting: a default there is nobody's wish.
  const wished = (path: string) =>
    JSON.stringify(read(config, path)) !== JSON.stringify(lookUp(path)!.setting.default);
  const given = without.filter((path) =>
    origin(path).startsWith("--") || (!/^(default|preset .*)$/.test(origin(path)) && wished(path))
  );
  return given.length === 0
    ? []
    : [`No effect in hpctrain ${VERSION}: ${given.map((path) => `${path} (${origin(path)})`).join(", ")}.`];
}
