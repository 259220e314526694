import { assert } from "@std/assert";
import { matmulSpeed } from "../../../../../core/cluster/doctor/full/speeds.ts";
import { useLibtorch } from "../../../../libtorch.ts";

useLibtorch();

Deno.test("a device's speed is a number, and its product the same twice", () => {
  const { gflops, same } = matmulSpeed("cpu", 0.05);
  assert(gflops > 0.01 && gflops < 1e6, `${gflops}`);
  assert(same);
});
