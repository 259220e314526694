// A density on a grid -> maps of what lies along the line of sight. Imports nothing.

/** The mean density of each of `maps` slabs, all as thick as each other, as [maps, n, n]; the line of sight is the first axis. */
export function project(density: Float32Array, n: number, maps: number): Float32Array {
  const plane = n * n, depth = n / maps;
  const out = new Float32Array(maps * plane);
  for (let x = 0; x < n; x++) {
    const into = Math.floor(x / depth) * plane, from = x * plane;
    for (let i = 0; i < plane; i++) out[into + i] += density[from + i] / depth;
  }
  return out;
}
