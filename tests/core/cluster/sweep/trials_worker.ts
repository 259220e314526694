// A process that takes trials of a folder until none is left, and trains none: it prints the numbers it took.
import { endClaim, thisHolder } from "../../../../core/cluster/sweep/claims.ts";
import { readSweep } from "../../../../core/cluster/sweep/runs.ts";
import { type SearchSweep, settleTrial, takeTrial } from "../../../../core/cluster/sweep/trials.ts";

const [folder, dies] = Deno.args;
const sweep = readSweep(folder) as SearchSweep, me = await thisHolder(Deno.env.toObject());
const taken: number[] = [];
for (
  let next = await takeTrial(folder, sweep, me);
  next !== null;
  next = await takeTrial(folder, sweep, me)
) {
  const { trial: { number }, claim } = next;
  taken.push(number);
  if (taken.length === Number(dies)) break; // as after kill -9: without a result, and without an end
  await new Promise((resolve) => setTimeout(resolve, number % 3));
  settleTrial(folder, number, { state: "done", value: number, step: 1, epoch: 1, code: 0, why: "" });
  endClaim(claim);
}
console.log(JSON.stringify(taken));
