// The program with one more output registered.
import { OUTPUTS } from "../../../../core/outputs/outputs.ts";
import { main } from "../../../../main.ts";
import { madeOutput } from "./output.ts";

OUTPUTS.push((run) => madeOutput(run));
Deno.exit(await main(Deno.args));
