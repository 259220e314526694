// What this version can't do: refused where a run would be wrong, told where a setting has no effect.
// May import config, data, errors.
import type { Resolved } from "../config/resolve.ts";
import { lookUp, read } from "../config/tree.ts";
import { hasColumns } from "../data/open.ts";
import { UserError } from "../errors.ts";
import { VERSION } from "../version.ts";

/** Where launchers say how many processes they started: each would train, and write, the whole run. */
const WORLD_VARIABLES = ["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PALS_SIZE", "SLURM_NTASKS"];

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
  for (const name of WORLD_VARIABLES) {
    // Inside an allocation, but not in a step, SLURM_NTASKS is a promise and not a world.
    if (name === "SLURM_NTASKS" && env.SLURM_PROCID === undefined) continue;
    if (Number(env[name] ?? 1) > 1) {
      throw new UserError(
        "usage",
        `${name} is ${env[name]}, so ${
          env[name]
        } processes were started; hpctrain ${VERSION} trains in one. ` +
          "Start one: srun --ntasks=1 ./hpctrain ..., or without a launcher.",
      );
    }
  }
}

const WITHOUT_EFFECT = [
  "training.compile",
  "training.profile_training",
  "data.stage",
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

/** These say which columns and rows of a file to use. */
const OF_COLUMNS = ["data.bad_samples", "data.features", "data.targets"];

/** One line that names the settings somebody gave although this version does nothing with them. */
export function withoutEffect({ config, origin }: Resolved): string[] {
  const without = hasColumns(config.data) ? WITHOUT_EFFECT : [...WITHOUT_EFFECT, ...OF_COLUMNS];
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
