// Packs the samples of make.ts, slowly, to be killed. Arguments: OUT, milliseconds for each ten samples, RANK/WORLD.
import { writeShards } from "../../../../core/data/shards/write.ts";
import { make, plan } from "./make.ts";

const [out, slow, who] = Deno.args;
const [rank, world] = who.split("/").map(Number);
await writeShards(plan(out), { rank, world }, async (first, count, rows) => {
  console.log(first);
  await new Promise((done) => setTimeout(done, Number(slow)));
  return make(first, count, rows);
});
