// Takes and gives back a buffer of 48 MiB some times, before and after keepAllFreedMemory; says how many pages the kernel
// gave out for the last two. A process of its own: the setting stays as long as a process does.
import { fill_, uninitialised } from "../../ffi/make.ts";
import { keepAllFreedMemory } from "../../ffi/library.ts";
import { scope } from "../../ffi/tensor.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();
const faults = () => Number(Deno.readTextFileSync("/proc/self/stat").split(") ")[1].split(" ")[7]);
const use = () => scope(() => void fill_(uninitialised([12 << 20], { dtype: "f32" }), 1));
const ofTwo = () => {
  for (let i = 0; i < 12; i++) use();
  const before = faults();
  use();
  use();
  return faults() - before;
};
const asGlibcDoes = ofTwo();
keepAllFreedMemory();
console.log(JSON.stringify({ asGlibcDoes, kept: ofTwo() }));
