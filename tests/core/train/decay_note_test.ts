// What a run says of weight decay, which scripts in Python leave out for biases and norms.
import { assertEquals } from "@std/assert";
import { resolveSettings } from "../../../core/settings/resolve.ts";
import { decayNote } from "../../../core/train/checks.ts";
import type { Grouping } from "../../../core/train/trained_parameters.ts";
import { sentenceNamed } from "../../sentences.ts";

const matrix = { shape: [4, 4] }, bias = { shape: [4] };
const said = (flags: string, parameters = [matrix, bias], grouping: Grouping | null = null) =>
  decayNote(resolveSettings({ argv: flags.split(" "), env: {} }), parameters, grouping);

Deno.test("a typed weight decay says that biases and norms decay, where the weights came from Python", () => {
  const line = (decay: string, from = "--weight-decay") =>
    sentenceNamed("core/train/decay_note: weight decay weights", { decay, from });
  assertEquals(said("--model=my.pt2 --weight-decay=0.1"), [line("0.1")]);
  assertEquals(said("--model=resnet18 --init-from=resnet.pt --weight-decay=0.1"), [line("0.1")]);
});

Deno.test("nothing is said of the default, of no decay, of a model begun here, and where all weights are matrices", () => {
  assertEquals(said("--model=my.pt2"), []);
  assertEquals(said("--model=my.pt2 --weight-decay=0"), []);
  assertEquals(said("--model=gpt --weight-decay=0.1"), []);
  assertEquals(said("--model=my.pt2 --weight-decay=0.1", [matrix]), []);
  const group = { factor: 1, begins: 0, clipNorm: 0 };
  const grouping = {
    groups: [{ ...group, optimizer: {} }, { ...group, optimizer: { weight_decay: 0 } }],
    of: [0, 1],
  };
  assertEquals(
    said("--model=my.pt2 --weight-decay=0.1", [matrix, bias], grouping),
    [],
    "groups tell of themselves",
  );
});
