// How many GPUs this node shows, without loading what would use them. Imports nothing.

/** By CUDA_VISIBLE_DEVICES where it is set, else by the driver's device files. */
export function gpusHere(env: Readonly<Record<string, string | undefined>>): number {
  const visible = env.CUDA_VISIBLE_DEVICES;
  if (visible !== undefined) return visible.split(",").filter((id) => id.trim() && id.trim() !== "-1").length;
  try {
    return [...Deno.readDirSync("/dev")].filter(({ name }) => /^nvidia\d+$/.test(name)).length;
  } catch {
    return 0;
  }
}
