// What this version can't do: refused where a run would be wrong, told where a setting has no effect.
// May import config, data, dist, errors.
import { parseDuration, UNIT_SUFFIX } from "../config/duration.ts";
import { isTyped, type Resolved } from "../config/resolve.ts";
import { lookUp, read } from "../config/tree.ts";
import { hasColumns, hasTargets } from "../data/open.ts";
import type { Where } from "../dist/where.ts";
import { UserError } from "../errors.ts";
import { formatPlural } from "../format.ts";
import { VERSION } from "../version.ts";

/** A run that is meant for many nodes and finds itself on fewer was started wrongly. */
export function refuseLayout({ config, origin }: Resolved, { world, nodes, said }: Where): void {
  const asked = config.distributed.nodes;
  if (asked === 0 || asked === nodes) return;
  throw new UserError(
    "usage",
    `${origin("distributed.nodes")} asks for ${formatPlural(asked, "node")}, and this is ${
      formatPlural(world, "rank")
    } on ` +
      `${
        formatPlural(nodes, "node")
      }. ${said} Start it in the whole allocation (srun ./hpctrain ..., mpirun ./hpctrain ...), ` +
      "or leave the setting out.",
  );
}

/** GPUs that somebody asked for are the ranks of each node, one each. */
export function refuseGpus(
  { config, origin, layer }: Resolved,
  { localWorld }: Where,
  device: "cpu" | "cuda",
): void {
  const path = "distributed.gpus_per_node", asked = config.distributed.gpus_per_node;
  if (asked === 0 || config.distributed.any_layout || !isTyped(layer(path))) return;
  if (device === "cuda" && asked === localWorld) return;
  const wish = `${origin(path)} asks for ${formatPlural(asked, "GPU")} on each node`;
  throw new UserError(
    "usage",
    device === "cpu"
      ? `${wish}, and this run computes on CPUs. Leave it out, or see what \`hpctrain doctor\` says of GPUs here.`
      : `${wish}, and this one has ${formatPlural(localWorld, "rank")}, with a GPU each. Start as many: ` +
        `\`hpctrain launch -n ${asked} -- FLAGS\` on this machine, or a job by \`hpctrain sbatch --gpus-per-node ${asked}\`.`,
  );
}

const WITHOUT_EFFECT = ["training.compile"];

/** These are about data in files, not about data that is made up. */
const OF_FILES = ["data.stage", "data.bad_samples"];

/** One line that names the settings somebody gave although this version does nothing with them. */
export function withoutEffect({ config, origin, layer }: Resolved): string[] {
  const ofFiles = config.data.data_path === "" ? OF_FILES : [];
  const ofColumns = [
    ...(hasColumns(config.data) ? [] : ["data.features"]),
    ...(hasTargets(config.data) ? [] : ["data.targets"]),
  ];
  const without = [...WITHOUT_EFFECT, ...ofFiles, ...ofColumns];
  // A checkpoint, and what `config --yaml` prints, name every setting: a default there is nobody's wish.
  const wished = (path: string) =>
    JSON.stringify(read(config, path)) !== JSON.stringify(lookUp(path)!.setting.default);
  const given = without.filter((path) =>
    layer(path) === "flag" || (!["default", "preset"].includes(layer(path)) && wished(path))
  );
  return given.length === 0
    ? []
    : [`No effect in hpctrain ${VERSION}: ${given.map((path) => `${path} (${origin(path)})`).join(", ")}.`];
}

/** A number without a unit may be meant in another one: what it was taken for, and how to say so. */
export function unitsTaken({ config, unitless }: Pick<Resolved, "config" | "unitless">): string[] {
  return unitless.map(({ path, origin }) => {
    const units = lookUp(path)!.setting.units!, value = String(read(config, path));
    const { count } = parseDuration(value, units[0])!;
    const others = units.slice(1).map((unit) => `${count}${UNIT_SUFFIX[unit]}`);
    const instead = others.length > 0 ? ` Write ${others.join(" or ")} if that was meant.` : "";
    return `${path} ${count} (${origin}) has no unit: it is taken as ${
      formatPlural(count, units[0].slice(0, -1))
    }.${instead}`;
  });
}
