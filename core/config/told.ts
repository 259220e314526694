// What a start says of the variables that it found: those that count, and those that give way.
import type { Resolved } from "./resolve.ts";
import { ALL, read } from "./tree.ts";

/** Lines; none where no variable without our prefix is set, and no flag says other things than one. */
export function variablesTold({ config, variable, overruled, origin }: Resolved): string[] {
  const used = ALL.flatMap(({ path, setting: { plain = [] } }) => {
    const name = variable(path);
    return name !== null && plain.includes(name) ? [`${name}=${read(config, path)}`] : [];
  });
  const ours = overruled.filter(({ path, variable }) =>
    variable!.startsWith("HPCTRAIN_") || ALL.some((one) => one.path === path && one.setting.plain)
  );
  return [
    ...(used.length > 0 ? [`From the environment: ${used.join(", ")}.`] : []),
    ...ours.map(({ path, value, variable }) =>
      `${variable}=${value} of the environment gives way to ${origin(path)}: ${read(config, path)}.`
    ),
  ];
}
