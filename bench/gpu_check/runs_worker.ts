// Runs the program's commands one after the other in one process. runs.ts is the other side: each line of the input is a
// folder and arguments, and after each run a line of the output has its exit code.
import { main } from "../../main.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { asUserError } from "../../core/train/device.ts";
import { linesOf } from "../contestant.ts";
import { END_OF_RUN } from "./runs.ts";

async function codeOf(args: string[]): Promise<number> {
  try {
    return await main(args);
  } catch (cause) {
    const error = asUserError(cause);
    console.error(error instanceof UserError ? `hpctrain: ${error.message}` : error);
    return error instanceof UserError ? error.exitCode : EXIT.internal;
  }
}

for await (const line of linesOf(Deno.stdin.readable)) {
  const { cwd, args } = JSON.parse(line);
  Deno.chdir(cwd);
  console.log(`\n${END_OF_RUN}${await codeOf(args)}`);
}
Deno.exit(0); // a thread of the last run may still wait
