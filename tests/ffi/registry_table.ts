// What `scripts/registry` finds, for docs/any-model.md: `row` prints what the libtorch of HPCTRAIN_LIBTORCH knows, whose walk
// (admitted_operations_test.ts) has passed before; `write` makes a table of such rows.
import { table, writeSection } from "../../bench/report.ts";
import { useLibtorch } from "../libtorch.ts";
import { admittedOf } from "./admitted.ts";
import { registered } from "./registry.ts";

async function write(): Promise<void> {
  const rows = (await new Response(Deno.stdin.readable).text()).trim().split("\n").map((row) =>
    row.split(" ")
  );
  const head = ["libtorch", "Operations it knows", "A graph may hold", "Refused"];
  writeSection("registry", table(head, rows), "docs/any-model.md", "scripts/registry");
}

if (Deno.args[0] === "write") await write();
else {
  const { versionText } = useLibtorch();
  const all = registered().length, admitted = admittedOf(registered()).length;
  console.log([versionText.replace(/\+.*/, ""), all, admitted, all - admitted].join(" "));
}
