// `hpctrain libtorch`: what it lists and what it refuses.

import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { libtorch, libtorchTable } from "../../commands/run/libtorch.ts";
import { UserError } from "../../core/base/errors.ts";
import type { Libtorch } from "../../ffi/libraries/find.ts";
import { sentenceNamed } from "../sentences.ts";

const newer: Libtorch = {
  dir: "/a",
  version: [2, 15, 0],
  versionText: "2.15.0+cu132",
  gpu: "cuda",
  from: "CONDA_PREFIX",
};
const older: Libtorch = {
  dir: "/b",
  version: [2, 10, 0],
  versionText: "2.10.0",
  gpu: null,
  from: "LD_LIBRARY_PATH",
};
const rejected = [{ dir: "/c", from: "VIRTUAL_ENV", reason: "there is no libtorch_cpu.so in it" }];

Deno.test("the list marks the chosen one and gives each rejected place its reason", () => {
  assertEquals(libtorchTable({ chosen: newer, usable: [newer, older], rejected }).split("\n"), [
    "* 2.15.0+cu132  CUDA  /a  (CONDA_PREFIX)",
    "  2.10.0        CPU   /b  (LD_LIBRARY_PATH)",
    "(* is the one that a run here uses)",
    "Rejected:",
    sentenceNamed("commands/libtorch: virtual_env libtorch_cpu 2"),
  ]);
});

Deno.test("where the named one can't be used, the list says that no other takes its place", () => {
  assertMatch(libtorchTable({ chosen: null, usable: [older], rejected }), /None of these is used, because/);
});

Deno.test("unknown words and flags are refused with what is expected", async () => {
  for (
    const args of [["insta"], ["install", "--qiet"], ["list", "x"], ["use"], ["use", "/a", "/b"], ["bundle"]]
  ) {
    const error = await assertRejects(
      () => libtorch(args),
      UserError,
      "expected `list [--json]`",
      args.join(" "),
    );
    assertEquals(error.exitCode, 2);
  }
  for (
    const args of [["install", "--arch", "arm64"], ["install", "--arch"], [
      "bundle",
      "a.tar",
      "--arch=x86_64,sparc",
    ]]
  ) {
    await assertRejects(
      () => libtorch(args),
      UserError,
      "--arch` takes x86_64 or aarch64, but not",
      args.join(" "),
    );
  }
  const two = () => libtorch(["install", "--arch=x86_64,aarch64"]);
  await assertRejects(two, UserError, "takes one architecture at a time");
  const both = () => libtorch(["bundle", "a.tar", "--libtorch", "/a", "--arch", "aarch64"]);
  await assertRejects(both, UserError, "takes --libtorch or --arch, not both");
  const noFolder = () => libtorch(["bundle", "libtorch.tar", "--libtorch"]);
  await assertRejects(noFolder, UserError, "bundle --libtorch` needs the folder");
});
