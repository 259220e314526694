import { assertEquals } from "@std/assert";
import { ALL_SAMPLES } from "../../../../core/settings/sections/data.ts";
import { unusedNote } from "../../../../core/data/source/order.ts";
import { settings } from "../tables/help.ts";
import { sentenceNamed } from "../../../sentences.ts";

const note = (unused: number, train_samples: number, val_samples: number) =>
  unusedNote(unused, settings({ data: { train_samples, val_samples } }).data, "image");

Deno.test("the line about unused samples names the numbers that somebody gave, and no others", () => {
  assertEquals(note(3000, 500, ALL_SAMPLES), [sentenceNamed("core/data/source/unused: used images because")]);
  assertEquals(note(3000, ALL_SAMPLES, 7), ["Not used: 3000 images, because val_samples is 7"]);
  assertEquals(note(1, 500, 7), [sentenceNamed("core/data/source/unused: used image because")]);
  assertEquals(note(0, 500, 7), []);
});
