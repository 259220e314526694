// "Did you mean".
import { assertEquals } from "@std/assert";
import { didYouMean, nearest } from "../../../core/base/suggest.ts";

Deno.test("the nearest name is suggested: a typing error, another separator, a beginning", () => {
  const known = ["epochs", "batch-size", "early-stopping-patience", "lr"];
  assertEquals(nearest("epcohs", known), "epochs");
  assertEquals(nearest("rl", known), "lr");
  assertEquals(nearest("batch_size", known), "batch-size");
  assertEquals(nearest("early-stopping", known), "early-stopping-patience");
  assertEquals(nearest("Epochs", known), "epochs");
});

Deno.test("nothing is suggested for a name that is near none", () => {
  assertEquals(nearest("zzzzzz", ["epochs", "lr"]), null);
  assertEquals(nearest("xy", ["lr", "epochs"]), null);
  assertEquals(didYouMean("zzz", []), "");
});

Deno.test("a name of one letter is not taken for another letter, and the last part of a path is a name", () => {
  assertEquals(nearest("z", ["a", "b"]), null);
  assertEquals(nearest("T", ["t", "b"]), "t");
  assertEquals(nearest("t", ["forcing/lat", "forcing/t", "t2"]), "forcing/t");
});
