import { assertEquals } from "@std/assert";
import { mergeNodes } from "../../../../../core/cluster/doctor/full/judge.ts";
import { bad, good, warn } from "../../../../../core/cluster/doctor/check.ts";

const libtorch = "2.15.0";

Deno.test("one node's lines are left as they are", () => {
  const lines = [good("a", "x"), warn("b", "y", "z")];
  assertEquals(mergeNodes([{ host: "n1", lines, libtorch }]), { lines, exclude: [] });
});

Deno.test("what all nodes find is told once, what one finds with its name, and only that node is to leave out", () => {
  const common = (host: string) => [good("memory", "9 GiB"), warn("network", `${host} is unknown`, "Ask.")];
  const { lines, exclude } = mergeNodes([
    { host: "n1", lines: common("n1"), libtorch },
    { host: "n2", lines: [...common("n2"), bad("storage", "read-only", "Ask.")], libtorch },
    { host: "n3", lines: [good("memory", "7 GiB"), warn("network", "n3 is unknown", "Ask.")], libtorch },
  ]);
  assertEquals(lines.map(({ name, said }) => `${name}: ${said}`), [
    "memory: 9 GiB",
    "network: on all 3 nodes: n1 is unknown",
    "storage: on n2: read-only",
  ]);
  assertEquals(exclude, ["n2"]);
});

Deno.test("what is bad on all nodes is no node's fault", () => {
  const lines = [bad("storage", "read-only", "Ask.")];
  assertEquals(mergeNodes([{ host: "n1", lines, libtorch }, { host: "n2", lines, libtorch }]).exclude, []);
});
