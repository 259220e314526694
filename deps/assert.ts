// The standard library's assertions, for tests alone. With JSR at hand the package is "jsr:@std/assert@1".
// @ts-types="./std.d.ts"
export {
  assert,
  assertAlmostEquals,
  assertEquals,
  AssertionError,
  assertMatch,
  assertNotEquals,
  assertNotMatch,
  assertRejects,
  assertStrictEquals,
  assertStringIncludes,
  assertThrows,
  equal,
} from "npm:deno-std@1.4.0/assert/mod.js";
