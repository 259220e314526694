import { assertEquals, assertMatch } from "@std/assert";
import { judgeDomains } from "../../../../core/cluster/doctor/system.ts";
import { readTopology } from "../../../../core/base/topology.ts";
import { inMachine, type Machine, MACHINES } from "../../base/made_topology.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

const judged = (machine: Machine, sharing = 1, allowed?: number[], memory: number | null = null) =>
  inMachine(machine, (root, cpus) => {
    const mine = allowed ?? Array.from({ length: cpus }, (_, i) => i);
    return judgeDomains({ topology: readTopology(root, mine), memory, sharing, cpus: mine.length })[0];
  });

Deno.test("doctor says domains, cores without hyperthreads, memory a domain, and the default of launch", () => {
  const { state, said } = judged(MACHINES["LUMI-C"]);
  assertEquals([state, said], [
    "good",
    sentenceNamed("core/cluster/doctor/domains: domains cores gib"),
  ]);
  assertSentence("core/cluster/doctor/domains: domain cores gib", judged(MACHINES.laptop).said);
  assertSentence(
    "core/cluster/doctor/domains: domains cores gib without",
    judged(MACHINES["four GH200"]).said,
  );
});

Deno.test("a rank that is bound to one domain is well; ranks that may be on all of them are told how to be bound", () => {
  const own = [49, 50, 51, 52, 53, 54, 55];
  const bound = judged(MACHINES["LUMI-G"], 8, own, 3);
  assertEquals([bound.state, bound.said], [
    "good",
    sentenceNamed("core/cluster/doctor/domains: domain cores gib memory"),
  ]);
  assertMatch(judged(MACHINES["LUMI-G"], 8, own).said, /; the kernel does not let it prefer that memory$/);
  const loose = judged(MACHINES["LUMI-C"], 8);
  assertEquals(loose.state, "warn");
  assertMatch(loose.said, /; each of 8 ranks may be on all of them$/);
  assertMatch(loose.fix!, /--srun-arg=--cpu-bind=cores with --cpus-per-task 16, or `hpctrain launch`/);
  const half = judged(MACHINES["two sockets"], 1, [0, 1, 24, 25]);
  assertEquals(half.state, "good");
});
