import { assertEquals, assertMatch } from "@std/assert";
import {
  gatherLibtorch,
  judgeLibtorch,
  type LibtorchFacts,
} from "../../../../core/cluster/doctor/libraries.ts";
import { fakeTorch } from "../../../ffi/libraries/fake_libtorch.ts";
import { inTemp } from "../../../integration/program.ts";
import { assertSentence } from "../../../sentences.ts";

const LIB = {
  dir: "/opt/torch/lib",
  version: [2, 15, 0] as const,
  versionText: "2.15.0+cu132",
  gpu: "cuda" as const,
  from: "VIRTUAL_ENV",
};
const facts = (more: Partial<LibtorchFacts>): LibtorchFacts => ({
  chosen: LIB,
  usable: [LIB],
  rejected: [],
  broken: null,
  ...more,
});
const OLD = {
  dir: "/old/lib",
  from: "CONDA_PREFIX",
  reason: "it is too old: version 2.4.1, and 2.10 or newer is needed",
};

Deno.test("a libtorch that works is good, and what was not used is told with its reason", () => {
  const [first, second] = judgeLibtorch(facts({ rejected: [OLD] }));
  assertEquals([first.state, first.said], ["good", "2.15.0+cu132 with CUDA, /opt/torch/lib (VIRTUAL_ENV)"]);
  assertEquals([second.state, second.fix], ["good", null]);
  assertSentence("core/cluster/doctor/libtorch: used old lib", second.said);
});

Deno.test("no libtorch at all is bad, with three ways to get one", () => {
  const [line] = judgeLibtorch(facts({ chosen: null, usable: [] }));
  assertEquals([line.state, line.said], ["bad", "none was found on this machine"]);
  assertMatch(line.fix!, /hpctrain libtorch install.*module.*--libtorch DIR/);
});

Deno.test("one that was named and is too old is bad although another would do, and the fix names that", () => {
  const [line, ...more] = judgeLibtorch(facts({ chosen: null, rejected: [{ ...OLD, from: "--libtorch" }] }));
  assertEquals([line.state, more.length], ["bad", 0]);
  assertMatch(line.said, /--libtorch\): it is too old/);
  assertMatch(line.fix!, /2\.15\.0\+cu132 in \/opt\/torch\/lib/);
});

Deno.test("one that can't be loaded is bad with the loader's words", () => {
  const [line] = judgeLibtorch(facts({ broken: "libgomp.so.1: cannot open shared object file" }));
  assertEquals(line.state, "bad");
  assertMatch(line.said, /does not work: libgomp\.so\.1: cannot open/);
});

Deno.test("a folder whose version file says 2.4 is found too old", () =>
  inTemp((folder) => {
    const found = gatherLibtorch(fakeTorch(folder, "2.4.1"));
    assertEquals(found.chosen, null);
    assertMatch(judgeLibtorch(found)[0].said, /too old: version 2\.4\.1/);
  }));
