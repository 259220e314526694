// A process of its own for stderr_test.ts: calls that libtorch refuses, between lines of the program's own.
import { backward, requireGrad } from "../../ffi/autograd.ts";
import { add, fill_, tensor, zeros } from "../../ffi/make.ts";
import { mm, relu, variance } from "../../ffi/ops.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();
/** Makes libtorch print a warning, which is no error. */
const warn = () => Deno.args[0] === "warn" && variance(zeros([1]), [0]);
const refused: Record<string, () => unknown> = {
  dispatcher: () => mm(zeros([2]), zeros([2])),
  backward: () => backward(zeros([1])),
  sum: () => add(zeros([2]), zeros([3])),
  item: () => zeros([2]).item(),
  itemBigInt: () => zeros([2]).itemBigInt(),
  fill: () => fill_(requireGrad(zeros([1])), 1),
  leaf: () => requireGrad(tensor(Int32Array.of(1))),
};
warn();
console.error("before");
for (const [name, call] of Object.entries(refused)) {
  try {
    call();
    console.log(`${name}: was not refused`);
  } catch (error) {
    console.log(`${name}: ${(error as Error).message}`);
  }
  console.error(`after ${name}`);
}
relu(zeros([1]));
await new Deno.Command("sh", { args: ["-c", "echo from a child >&2"], stderr: "inherit" }).output();
warn();
