// What data may take of the memory, and what is said when it would take more.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { checkRoom, freeMemory, heldInMemory } from "../../../core/data/room.ts";
import { UserError } from "../../../core/errors.ts";
import { inFolder } from "../checkpoint/python.ts";

const GIB = 2 ** 30;

Deno.test("half of what is free may be taken; beyond, the number of samples that fits is told", () => {
  checkRoom("big.npz", GIB, 1000, "", 2 * GIB);
  const error = assertThrows(() => checkRoom("big.npz", 3 * GIB, 1000, "Choose fewer.", 2 * GIB), UserError);
  assertEquals(error.kind, "memory");
  assertEquals(
    error.message,
    "big.npz would take 3.0 GiB of memory; data may take half of what is free, and that is 1.0 GiB, enough for " +
      "333 of its 1000 samples. Choose fewer.",
  );
});

Deno.test("data is held in memory up to a quarter of what is free, unless the user says where it is held", () => {
  assertEquals([2, 2.1].map((share) => heldInMemory("auto", share * GIB, 8 * GIB)), [true, false]);
  assertEquals([heldInMemory("yes", 9 * GIB, GIB), heldInMemory("no", 1, GIB)], [true, false]);
});

Deno.test("what is free is what the kernel says where no control group has a limit", () => {
  const kernel = Number(/MemTotal: *(\d+) kB/.exec(Deno.readTextFileSync("/proc/meminfo"))![1]) * 1024;
  const free = freeMemory("/nowhere", "0::/job\n");
  assert(free > 0 && free <= kernel);
});

Deno.test(
  "the tightest control group above a process counts, without its cache of files",
  inFolder((folder) => {
    const group = (path: string, max: string, current: number, cache: number) => {
      Deno.mkdirSync(`${folder}/${path}`, { recursive: true });
      Deno.writeTextFileSync(`${folder}/${path}/memory.max`, `${max}\n`);
      Deno.writeTextFileSync(`${folder}/${path}/memory.current`, `${current}\n`);
      Deno.writeTextFileSync(`${folder}/${path}/memory.stat`, `anon 1\nfile ${cache}\nfile_mapped 7\n`);
    };
    group("", "max", 5e9, 0);
    group("job", "9000000", 8_000_000, 3_000_000);
    group("job/step", "max", 1, 0);
    assertEquals(freeMemory(folder, "12:cpu:/other\n0::/job/step\n"), 4_000_000);
    group("job/step", "1000", 2000, 0);
    assertEquals(freeMemory(folder, "0::/job/step\n"), 0);
  }),
);
