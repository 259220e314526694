// Lists as launchers write them: SLURM's "gpu[001-003,7],login1" and "2(x3),1", the lines of PBS_NODEFILE.
// May import errors.
import { UserError } from "../errors.ts";

/** More names than any machine has nodes: a list that gives more is a slip of the pen. */
const MOST_NODES = 100_000;

/** What `scontrol show hostnames` would print. `from` is where the list stands: a variable's name. */
export function expandNodes(list: string, from: string): string[] {
  const names = cut(list, from, list).flatMap((item) => expandItem(item, from, list));
  if (names.length > MOST_NODES) throw broken(list, from, `it names ${names.length} nodes`);
  return names;
}

/** "2(x3),1": two tasks on each of three nodes, then one on the fourth. */
export function expandCounts(list: string, from: string): number[] {
  return list.split(",").flatMap((part) => {
    const [whole, count, times = "1"] = part.trim().match(/^(\d+)(?:\(x(\d+)\))?$/) ?? [];
    if (!whole || Number(times) > MOST_NODES) {
      throw new UserError("usage", `${from} is "${list}": numbers such as "2(x3),1" are expected. Unset it.`);
    }
    return Array<number>(Number(times)).fill(Number(count));
  });
}

/** PBS names a node once for each of its slots. */
export function uniqueNodes(lines: readonly string[]): string[] {
  return [...new Set(lines.map((line) => line.trim()).filter((line) => line !== ""))];
}

/** Whether both are one machine: a list may say "node1" where the machine says "node1.cluster.example". */
export function sameNode(a: string, b: string): boolean {
  const [short, other] = [a, b].map((name) => name.toLowerCase().split(".")[0]);
  const whole = a.includes(".") && b.includes(".");
  return whole ? a.toLowerCase() === b.toLowerCase() : short === other;
}

/** At the commas outside brackets. */
function cut(text: string, from: string, list: string): string[] {
  const items = [""];
  let depth = 0;
  for (const letter of text) {
    if (letter === "[") depth++;
    if (letter === "]") depth--;
    if (depth < 0) throw broken(list, from, "its brackets don't match");
    if (letter === "," && depth === 0) items.push("");
    else items[items.length - 1] += letter;
  }
  if (depth !== 0) throw broken(list, from, "its brackets don't match");
  return items.map((item) => item.trim()).filter((item) => item !== "");
}

/** "r[1-2]n[01-04]": the last bracket counts fastest. */
function expandItem(item: string, from: string, list: string): string[] {
  return item.split(/(\[[^\]]*\])/).reduce((starts, part) => {
    const ends = part.startsWith("[") ? expandRange(part.slice(1, -1), from, list) : [part];
    if (starts.length * ends.length > MOST_NODES) throw broken(list, from, "it names too many nodes");
    return starts.flatMap((start) => ends.map((end) => start + end));
  }, [""]);
}

function expandRange(ranges: string, from: string, list: string): string[] {
  return ranges.split(",").flatMap((range) => {
    const [whole, first, last = first] = range.trim().match(/^(\d+)(?:-(\d+))?$/) ?? [];
    const count = Number(last) - Number(first) + 1;
    if (!whole || !(count >= 1)) throw broken(list, from, `"${range}" is no range`);
    if (count > MOST_NODES) throw broken(list, from, `"${range}" names ${count} nodes`);
    // 001-012 keeps its zeros, 8-12 has none.
    return Array.from({ length: count }, (_, i) => String(Number(first) + i).padStart(first.length, "0"));
  });
}

function broken(list: string, from: string, why: string): UserError {
  return new UserError(
    "usage",
    `${from} is "${list}", and ${why}: a list such as "gpu[001-003,7],login1" is expected. ` +
      "The scheduler sets it; don't set it yourself.",
  );
}
