import { assertEquals } from "@std/assert";
import { packParameters, takeGradients } from "../../../../core/train/arena.ts";
import { backward, requireGrad } from "../../../../ffi/autograd.ts";
import { add, fill_, ones, toNumbers } from "../../../../ffi/make.ts";
import { mul, randn, sum } from "../../../../ffi/ops.ts";
import { liveTensors, scope, type Tensor } from "../../../../ffi/tensor.ts";
import { open } from "../rig.ts";

open();

const made = (): [string, Tensor][] => [["a", requireGrad(randn([3, 5]))], ["b", requireGrad(randn([17]))]];
const values = (t: Tensor) => Array.from(toNumbers(t));

Deno.test("parameters keep their values, and what happens to the flat buffer happens to them", () => {
  const named = made();
  const before = named.map(([, p]) => values(p));
  const { flat, parameters } = packParameters(named, "cpu");
  assertEquals(parameters, named.map(([, p]) => p));
  assertEquals(parameters.map(values), before);
  fill_(flat, 3);
  assertEquals(values(parameters[1]), new Array(17).fill(3));
});

Deno.test("every parameter begins on a multiple of 64 bytes, and the room between is zero", () => {
  const { flat, viewsOf } = packParameters(made(), "cpu");
  const [a, b] = viewsOf(flat);
  const whole = values(flat);
  assertEquals(whole.length, 16 + 32);
  assertEquals([whole.slice(0, 15), whole.slice(16, 33)], [values(a), values(b)]);
  assertEquals([whole[15], ...whole.slice(33)], new Array(16).fill(0));
});

Deno.test("backward adds up in the gradient buffer, by parameter and as a whole", () => {
  const { gradient, gradients, parameters: [a, b] } = packParameters(made(), "cpu");
  const loss = () => add(sum(mul(a, a)), sum(b));
  for (let i = 0; i < 2; i++) scope(() => backward(loss()));
  assertEquals(values(gradients[1]), new Array(17).fill(2));
  assertEquals(values(gradients[0]), values(a).map((x) => 4 * x));
  assertEquals(values(gradient).slice(0, 15), values(gradients[0]));
});

Deno.test("a direct arena takes each backward's own gradients, zeros where none arrived, and keeps nothing", () => {
  const arena = packParameters(made(), "cpu", true);
  const [a] = arena.parameters;
  const factor = ones([3, 5]);
  const step = (by: number) =>
    scope(() => {
      backward(sum(mul(a, fill_(factor, by))));
      takeGradients(arena);
      return arena.gradients.map(values);
    });
  assertEquals(step(2), [new Array(15).fill(2), new Array(17).fill(0)]);
  const before = liveTensors();
  assertEquals(step(5), [new Array(15).fill(5), new Array(17).fill(0)]);
  assertEquals(liveTensors(), before);
});
