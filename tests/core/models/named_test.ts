// What a user's file is told of a name that the library lacks.
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { withKnownNames } from "../../../core/models/user/named.ts";
import { tensor, toNumbers } from "../../../ffi/make.ts";
import { useLibtorch } from "../../libtorch.ts";
import * as library from "../../../mod.ts";

useLibtorch();

Deno.test("an unknown module or op gets the near one, and those of PyTorch with their dimensions are there", () => {
  const { nn, ops } = withKnownNames({ ...library });
  const said = (ask: () => unknown) => assertThrows(ask, TypeError).message;
  assertMatch(
    said(() => (nn as any).BatchNorm4d),
    /^nn has no BatchNorm4d\. Did you mean nn\.BatchNorm[123]d\?/,
  );
  assertMatch(said(() => (nn as any).LayrNorm), /Did you mean nn\.LayerNorm\?/);
  assertMatch(said(() => (ops as any).softmx), /^ops has no softmx\. Did you mean ops\.softmax\?/);
  for (const name of ["BatchNorm", "MaxPool", "AvgPool", "AdaptiveAvgPool", "Dropout"]) {
    for (const dims of [1, 2, 3]) assertEquals(typeof (nn as any)[`${name}${dims}d`], "function");
  }
});

Deno.test("the running statistics of a batch norm can be read", () => {
  library.scope(() => {
    const norm = new library.nn.BatchNorm1d(2, { momentum: 1 });
    assertEquals([...toNumbers(norm.runningMean), ...toNumbers(norm.runningVar)], [0, 0, 1, 1]);
    norm.forward(tensor(Float32Array.of(1, 10, 3, 30), [2, 2]));
    assertEquals([...toNumbers(norm.runningMean), ...toNumbers(norm.runningVar)], [2, 20, 2, 200]);
  });
});
