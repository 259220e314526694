import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { join } from "paths";
import { cpuOf, ofHost, ofMemory, ofNetwork, ratesBetween, readCounters } from "../../../core/run/system.ts";
import { threadSeconds } from "../../cpu_time.ts";

Deno.test("processor time is found behind a name with spaces and brackets", () => {
  const stat = "4242 (a (b) c d) S 1 4242 4242 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 5000 1000 200";
  assertEquals(cpuOf(stat), 3);
});

Deno.test("the machine's ticks leave out what was waited for, and what is counted twice", () => {
  const stat = "cpu  100 10 50 700 100 20 10 10 40 4\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
  assertEquals(ofHost(stat), { hostTicks: 1000, hostBusy: 200 });
});

Deno.test("network bytes are those of all interfaces but the machine's own loop", () => {
  const dev = "Inter-| Receive | Transmit\n face |bytes ...\n" +
    "    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0\n" +
    "  eth0: 100 1 0 0 0 0 0 0 10 1 0 0 0 0 0 0\n" +
    "ib0:1000 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0\n";
  assertEquals(ofNetwork(dev), { networkIn: 1100, networkOut: 210 });
});

Deno.test("memory in use is what is not available", () => {
  assertEquals(ofMemory("MemTotal:  1000 kB\nMemFree: 100 kB\nMemAvailable:  400 kB\n"), {
    memory: 600 * 1024,
    memoryTotal: 1000 * 1024,
  });
});

Deno.test("rates are differences over the time between, and a counter that began anew gives none below 0", () => {
  const rates = ratesBetween(
    { at: 10, cpu: 5, diskRead: 1000, networkIn: 500, hostTicks: 100, hostBusy: 50 },
    { at: 14, cpu: 11, diskRead: 5000, networkIn: 100, hostTicks: 300, hostBusy: 100, rss: 7 },
  );
  assertEquals(rates.cpu_percent, 150);
  assertEquals([rates.disk_read_bytes_per_s, rates.network_in_bytes_per_s], [1000, 0]);
  assertEquals([rates.host_cpu_percent, rates.rss_bytes, rates.network_out_bytes_per_s], [25, 7, undefined]);
});

Deno.test("what the kernel does not show is missing, and the rest is there", () => {
  const root = Deno.makeTempDirSync();
  try {
    assertEquals(Object.keys(readCounters(root)), ["at"]);
    Deno.mkdirSync(join(root, "self"));
    Deno.writeTextFileSync(join(root, "self/status"), "Name:\tx\nVmRSS:\t    64 kB\nThreads:\t3\n");
    const { rss, threads, cpu } = readCounters(root);
    assertEquals([rss, threads, cpu], [64 * 1024, 3, undefined]);
  } finally {
    Deno.removeSync(root, { recursive: true });
  }
});

Deno.test("of this process: memory as the system counts it, and the processor time it has just used", () => {
  const before = readCounters(), computed = threadSeconds();
  while (threadSeconds() < computed + 0.3); // on a busy machine that is more than 0.3 s of the clock
  const now = readCounters();
  assertAlmostEquals(now.rss!, Deno.memoryUsage().rss, 2 ** 25);
  const { cpu_percent } = ratesBetween(before, now);
  const seconds = cpu_percent! / 100 * (now.at - before.at);
  assert(seconds > 0.25, `${seconds} s where a loop computed for 0.3`); // the system counts hundredths
});
