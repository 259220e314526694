// `hpctrain libtorch install --if-missing`: a libtorch for CPUs is not what --cuda asks for.
import { assertEquals } from "@std/assert";
import { bareMachine, inTemp, run } from "../integration/program.ts";
import { fakeTorch } from "../ffi/libraries/fake_libtorch.ts";
import { assertSentence } from "../sentences.ts";

Deno.test("install --if-missing is content with a libtorch for CPUs, and with --cuda it is not", () =>
  inTemp(async (cwd) => {
    fakeTorch(cwd);
    const env = { ...bareMachine(cwd), HPCTRAIN_LIBTORCH: cwd };
    const install = ["libtorch", "install", "--if-missing"];
    const there = await run(install, { cwd, env });
    assertEquals([there.code, there.stderr], [0, ""]);
    const cuda = await run([...install, "--cuda=13"], { cwd, env });
    assertEquals(cuda.code, 7);
    assertSentence("commands/libtorch_cuda: cuda libraries could", cuda.stderr);
  }));
