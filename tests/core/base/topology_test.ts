// NUMA domains and cores as Linux shows them, on machines that are not here, and what each of many ranks gets.
import { assert, assertEquals } from "@std/assert";
import {
  coresOf,
  cpuCount,
  expandCores,
  readTopology,
  shareCores,
  usableCores,
} from "../../../core/base/topology.ts";
import { inMachine, type Machine, MACHINES, madeOf } from "./made_topology.ts";
import { assertSentence } from "../../sentences.ts";

const all = (cpus: number) => Array.from({ length: cpus }, (_, i) => i);
const read = (machine: Machine) => inMachine(machine, (root, cpus) => readTopology(root, all(cpus)));

Deno.test("domains, cores and memory are those of the machine, and a core's threads are one core", () => {
  const seen = Object.entries(MACHINES).map(([name, machine]) => {
    const { domains, ofMachine } = read(machine);
    return [
      name,
      ofMachine,
      domains.length,
      domains[0].cores.length,
      domains[0].cores[1],
      domains[0].bytes / 2 ** 30,
    ];
  });
  assertEquals(seen, [
    ["laptop", 1, 1, 4, [1, 5], 16],
    ["two sockets", 2, 2, 24, [1], 96],
    ["LUMI-C", 8, 8, 16, [1, 129], 32],
    ["LUMI-G", 4, 4, 16, [1, 65], 128],
    ["four GH200", 4, 4, 72, [1], 120], // the GPUs' own memory is no domain to compute in
  ]);
});

Deno.test("a job's part of a machine has the domains that it has cores of, and one thread of a core is a core", () => {
  inMachine(MACHINES["LUMI-G"], (root) => {
    // What is left of a node where the first core of each eight is the system's.
    const left = all(64).filter((cpu) => cpu % 8 !== 0);
    const { domains, ofMachine } = readTopology(root, left);
    assertEquals([ofMachine, domains.map(({ cores }) => cores.length)], [4, [14, 14, 14, 14]]);
    const one = readTopology(root, expandCores("49-55"));
    assertEquals([one.domains.map(({ id }) => id), coresOf(one).length], [[3], 7]);
    assertEquals(coresOf(readTopology(root, [3, 67])), [[3, 67]]);
  });
});

Deno.test("a system without such files is one domain of all cores", () => {
  const { domains, ofMachine } = readTopology("/no/such/folder", [0, 1, 5]);
  assertEquals([ofMachine, domains], [1, [{ id: 0, cores: [[0], [1], [5]], bytes: 0 }]]);
  assert(usableCores() >= 1 && usableCores() <= cpuCount());
});

Deno.test("2, 8 and 64 ranks get stretches of cores that share no core and cross no domain", () => {
  for (const [name, machine] of Object.entries(MACHINES)) {
    const topology = read(machine);
    const domainOf = new Map(
      topology.domains.flatMap(({ id, cores }) => cores.flat().map((cpu) => [cpu, id])),
    );
    for (const ranks of [2, 8, 64]) {
      const { cores } = shareCores(topology, ranks);
      const total = coresOf(topology).length;
      const what = `${ranks} ranks on ${name}`;
      if (cores === null) {
        assert(Math.floor(total / ranks) * machine.threads < 2, what);
        continue;
      }
      assertEquals(cores.length, ranks, what);
      assertEquals(new Set(cores.flat()).size, cores.flat().length, `${what}: a core is two ranks'`);
      assertEquals(new Set(cores.map((own) => own.length)).size, 1, `${what}: unlike ranks`);
      const domains = cores.map((own) => new Set(own.map((cpu) => domainOf.get(cpu))).size);
      const count = topology.domains.length;
      const most = ranks % count === 0 ? 1 : count % ranks === 0 ? count / ranks : count;
      assert(domains.every((crossed) => crossed <= most), `${what}: ${domains}`);
      if (ranks % count === 0) {
        const each = Math.floor(machine.coresEach / (ranks / count)) * machine.threads;
        assertEquals(cores[0].length, each, what);
      }
    }
  }
});

Deno.test("one rank a domain has the whole domain, both threads of each core", () => {
  const { cores, description } = shareCores(read(MACHINES["LUMI-C"]), 8);
  assertEquals(cores![3], [...all(16).flatMap((i) => [48 + i, 176 + i])]);
  assertSentence("core/base/topology: cores rank rank", description);
  assertSentence("core/base/topology: cores rank numa", shareCores(read(MACHINES["LUMI-C"]), 2).description);
});

Deno.test("domains of unlike size give all ranks as much as the smallest has", () => {
  const { cores, description } = shareCores(madeOf(16, 14), 4);
  assertEquals(cores!.map((own) => own.length), [7, 7, 7, 7]);
  assertEquals(cores!.map(([first]) => first), [0, 7, 16, 23]);
  assertSentence("core/base/topology: cores rank ranks", description);
});

Deno.test("ranks that domains can't be divided by get a stretch of all cores each", () => {
  const { cores, description } = shareCores(madeOf(4, 4), 3);
  assertEquals(cores, [[0, 1], [2, 3], [4, 5]]);
  assertSentence("core/base/topology: cores rank rank left", description);
});

Deno.test("each rank gets a stretch of the cores, and those left over are nobody's", () => {
  const { cores, description } = shareCores(madeOf([[0], [4], [1], [5], [2], [6], [3]]), 3);
  assertEquals(cores, [[0, 4], [1, 5], [2, 6]]);
  assertSentence("core/base/topology: cores rank rank 2", description);
});

Deno.test("with less than two threads a rank nothing is bound", () => {
  assertEquals(shareCores(madeOf(2), 2), {
    cores: null,
    description: "2 cores are shared by 2 ranks, 1 thread each",
  });
  assertEquals(shareCores(madeOf(3), 2).cores, null);
  assertEquals(shareCores(madeOf(1), 4).cores, null);
  assertEquals(shareCores(madeOf([[0, 2], [1, 3]]), 2).cores, [[0, 2], [1, 3]]); // a core with both its threads
});
