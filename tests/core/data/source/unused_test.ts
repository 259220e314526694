import { assertEquals } from "@std/assert";
import { ALL_SAMPLES } from "../../../../core/settings/sections/data.ts";
import { unusedNote } from "../../../../core/data/source/order.ts";
import { settings } from "../tables/help.ts";

const note = (unused: number, train_samples: number, val_samples: number) =>
  unusedNote(unused, settings({ data: { train_samples, val_samples } }).data, "image");

Deno.test("the line about unused samples names the numbers that somebody gave, and no others", () => {
  assertEquals(note(3000, 500, ALL_SAMPLES), ["Not used: 3000 images, because train_samples is 500"]);
  assertEquals(note(3000, ALL_SAMPLES, 7), ["Not used: 3000 images, because val_samples is 7"]);
  assertEquals(note(1, 500, 7), ["Not used: 1 image, because train_samples is 500 and val_samples 7"]);
  assertEquals(note(0, 500, 7), []);
});
