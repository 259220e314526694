import { assertEquals } from "@std/assert";
import { refused, systemRefusal, UserError } from "../../../core/base/errors.ts";
import { assertSentence } from "../../sentences.ts";

/** As Deno words it: the path stands behind the number, and few errors have a name. */
const quota = new Error("Disk quota exceeded (os error 122): open '/home/me/run_latest.pt'");

Deno.test("a refusal of the system is known by its number, wherever that stands in Deno's message", () => {
  assertEquals(systemRefusal(quota), {
    code: "EDQUOT",
    message: "Disk quota exceeded",
    call: "open '/home/me/run_latest.pt'",
  });
  assertEquals(systemRefusal(new Error("Object is remote (os error 66)")), {
    code: "66",
    message: "Object is remote",
    call: "",
  });
  const path = new Error("No such device (os error 19): open '/data/copy (os error 122): of it'");
  assertEquals(systemRefusal(path)?.code, "19");
});

Deno.test("what Deno has a name for keeps it, and errors of ours are no refusals", () => {
  const found = (() => {
    try {
      Deno.openSync("/proc/no such file");
    } catch (error) {
      return error;
    }
  })();
  assertEquals(systemRefusal(found)?.code, "ENOENT");
  for (
    const own of [new TypeError("x is undefined"), new UserError("data", "a"), null, undefined, "a", {
      code: "ERR_X",
    }]
  ) {
    assertEquals(systemRefusal(own), undefined);
  }
});

Deno.test("a refusal nobody has foreseen is a sentence that tells the call, its path and what to do, with a code of its own", () => {
  const expired = new Error("Key has expired (os error 127): rename '/a' -> '/b'");
  const told = refused(expired, "environment") as UserError;
  assertSentence("core/base/errors: system refused rename", told.message);
  assertEquals([told.exitCode, told.cause], [7, expired]);
  const ours = new TypeError("x is undefined");
  assertEquals(refused(ours, "environment"), ours);
});

Deno.test("a buffer that the machine has no memory for is out of memory, not a fault of ours", () => {
  let error: unknown;
  try {
    new ArrayBuffer(2 ** 46);
  } catch (caught) {
    error = caught;
  }
  assertEquals((refused(error, "data") as UserError).kind, "memory");
});
