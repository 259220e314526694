// The findings of several nodes as one list: what is the same everywhere once, what is a node's own with its name. Pure;
// may import line.
import type { Line } from "../line.ts";

export interface OfNode {
  readonly host: string;
  readonly lines: readonly Line[];
  /** The version of the library that it computes by. */
  readonly libtorch: string;
}

/** The first node's good lines stand for all. `exclude`: nodes on which alone training would fail. */
export function mergeNodes(nodes: readonly OfNode[]): { lines: Line[]; exclude: string[] } {
  const [first, ...others] = nodes;
  if (others.length === 0) return { lines: [...first.lines], exclude: [] };
  const told = new Map<string, { line: Line; hosts: string[] }>();
  for (const { host, lines } of nodes) {
    for (const line of lines) {
      const key = JSON.stringify([line.name, line.state, line.said.replaceAll(host, "NODE")]);
      const entry = told.get(key) ?? { line, hosts: [] };
      entry.hosts.push(host);
      told.set(key, entry);
    }
  }
  const entries = [...told.values()].filter(({ line, hosts }) =>
    line.state !== "good" || hosts[0] === first.host
  );
  const lines = entries.map(({ line, hosts }) => {
    if (line.state === "good") return line;
    const on = hosts.length === nodes.length ? `on all ${nodes.length} nodes` : `on ${hosts.join(", ")}`;
    return { ...line, said: `${on}: ${line.said}` };
  });
  const own = entries.filter(({ line, hosts }) => line.state === "bad" && hosts.length < nodes.length);
  return { lines, exclude: [...new Set(own.flatMap(({ hosts }) => hosts))] };
}
