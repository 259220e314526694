// Opens the checkpoint that is named and prints what became of it and how much memory that took at its peak. A program
// of its own, because a process's peak never falls.
import { describeCheckpoint, openCheckpoint } from "../../../core/checkpoint/open.ts";
import { UserError } from "../../../core/base/errors.ts";
import { threadSeconds } from "../../cpu_time.ts";

/** The most memory that this process ever had, in bytes. */
function peak(): number {
  const [, kilobytes] = /VmHWM:\s+(\d+) kB/.exec(Deno.readTextFileSync("/proc/self/status"))!;
  return Number(kilobytes) * 1024;
}

const before = peak();
const began = threadSeconds();
let said = "read";
try {
  using file = openCheckpoint(Deno.args[0]);
  describeCheckpoint(file);
  file.verify();
} catch (error) {
  said = error instanceof UserError ? `${error.kind}: ${error.message}` : String(error);
}
console.log(JSON.stringify({ bytes: peak() - before, ms: 1000 * (threadSeconds() - began), said }));
