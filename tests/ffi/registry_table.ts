// What `scripts/registry` finds, for bench/results/registry.md: `row` prints what the libtorch of HPCTRAIN_LIBTORCH knows, whose walk
// (admitted_operations_test.ts) has passed before; `write` makes a table of such rows.
import { writePage } from "../../bench/page.ts";
import { table } from "../../bench/report.ts";
import { useLibtorch } from "../libtorch.ts";
import { admittedOf } from "./admitted.ts";
import { registered } from "./registry.ts";

async function write(): Promise<void> {
  const rows = (await new Response(Deno.stdin.readable).text()).trim().split("\n").map((row) =>
    row.split(" ")
  );
  const head = ["libtorch", "Operations it knows", "A graph may hold", "Refused"];
  const about = "`./scripts/registry`: what each knows, and what of it a `.pt2` file may ask for.";
  writePage("registry", ["# Operations of each libtorch", about, table(head, rows)].join("\n\n"));
}

if (Deno.args[0] === "write") await write();
else {
  const { versionText } = useLibtorch();
  const all = registered().length, admitted = admittedOf(registered()).length;
  console.log([versionText.replace(/\+.*/, ""), all, admitted, all - admitted].join(" "));
}
