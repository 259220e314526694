import { assertEquals } from "@std/assert";
import { countCalls } from "../../bench/files.ts";

const TRACE = `
100 1.000000 execve("/usr/bin/a", ["a"], 0x7ffc /* 12 vars */) = 0
100 1.100000 openat(AT_FDCWD</home/a>, "/lib/libc.so.6", O_RDONLY|O_CLOEXEC) = 3</usr/lib/libc.so.6>
100 1.200000 openat(AT_FDCWD</home/a>, "missing", O_RDONLY) = -1 ENOENT (No such file or directory)
100 1.300000 openat(AT_FDCWD</home/a>, "/proc/self/maps", O_RDONLY) = 3</proc/100/maps>
100 1.400000 newfstatat(AT_FDCWD</home/a>, "/etc", {st_mode=S_IFDIR|0755, st_size=4096, ...}, 0) = 0
101 1.500000 openat(AT_FDCWD</home/a>, "/lib/libc.so.6", O_RDONLY <unfinished ...>
100 1.600000 stat("/etc/hosts", {st_mode=S_IFREG|0644, st_size=1, ...}) = 0
101 1.700000 <... openat resumed>) = 4</usr/lib/libc.so.6>
101 1.800000 openat(AT_FDCWD</home/a>, "gone", O_RDWR|O_CREAT, 0600) = 5</tmp/gone> (deleted)
101 1.900000 +++ exited with 0 +++
100 2.500000 openat(AT_FDCWD</home/a>, "/after/the/step", O_RDONLY) = 6</after/the/step>
`;

Deno.test("files that were opened are counted up to a moment, calls by their paths, and what the kernel shows is left out", () => {
  assertEquals(countCalls(TRACE, 2), { opened: 3, files: 2, calls: 7 });
  assertEquals(countCalls(TRACE, 3), { opened: 4, files: 3, calls: 8 });
});
