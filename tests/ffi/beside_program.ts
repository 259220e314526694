// A program of its own for preload_test.ts: loads libtorch beside its own work, in a process that has none yet.
// Argument: the folder. Says in JSON how it went.
import { checkLibtorch, isLibtorch } from "../../ffi/libraries/find.ts";
import { openLibtorch } from "../../ffi/library.ts";
import { loadBeside } from "../../ffi/preload.ts";
import { add, tensor, toNumbers } from "../../ffi/make.ts";

const lib = checkLibtorch(Deno.args[0], "a test");
if (!isLibtorch(lib)) throw new Error(lib.reason);
const isMapped = () => Deno.readTextFileSync("/proc/self/maps").includes(`${lib.dir}/libtorch_cpu.so`);
const before = isMapped();
let turns = 0;
const timer = setInterval(() => turns++, 1);
await loadBeside(lib);
clearInterval(timer);
const after = isMapped();
openLibtorch(lib);
const ones = tensor([1, 2, 3]);
console.log(JSON.stringify({ before, after, went: turns > 0, sum: Array.from(toNumbers(add(ones, ones))) }));
