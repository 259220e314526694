// The machine's libturbojpeg beside Pillow and our own fast code. HPCTRAIN_TURBOJPEG names it where the loader does not
// find it; ./scripts/test fetches one where there is none.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { openFastJpeg } from "../../core/data/codecs/fast_jpeg.ts";
import { openJpeg, openTurboWasm } from "../../core/data/images/jpeg.ts";
import { headerOf, openReusedBuffer } from "../../core/data/images/header.ts";
import { findTurboJpeg, openTurboJpeg, TJPF } from "../../ffi/codecs.ts";
import { inFolder } from "../core/checkpoint/python.ts";
import {
  damaged,
  isJpeg,
  makePictures,
  outcome,
  throughHeader,
  unlikePillow,
} from "../core/data/images/help.ts";

const turbo = findTurboJpeg([Deno.env.get("HPCTRAIN_TURBOJPEG") ?? "", "libturbojpeg.so.0"].filter(Boolean));
if (turbo) openTurboJpeg(turbo); // stays open: opened by a test, it would count as left behind by it
const needs = "(needs libturbojpeg: install it, or name it with HPCTRAIN_TURBOJPEG)";

Deno.test({
  name: `every kind of JPEG has Pillow's pixels through the machine's libturbojpeg ${turbo ? "" : needs}`
    .trim(),
  ignore: !turbo,
  fn: inFolder(async (folder) => {
    const made = (await makePictures(folder)).filter(isJpeg);
    const library = openTurboJpeg(turbo!);
    assertEquals(unlikePillow(throughHeader(openJpeg(library, openReusedBuffer())), made), []);
  }),
});

Deno.test({
  name: `where two builds of the library agree on a damaged JPEG, so does the fast code ${turbo ? "" : needs}`
    .trim(),
  ignore: !turbo,
  fn: inFolder(async (folder) => {
    const made = (await makePictures(folder)).filter(isJpeg).filter(({ path }) =>
      !path.endsWith("large.jpeg")
    );
    const native = openTurboJpeg(turbo!), fast = openFastJpeg();
    const [one, other] = [native, openTurboWasm()].map((library) =>
      throughHeader(openJpeg(library, openReusedBuffer()))
    );
    let agreed = 0;
    for (let i = 0; i < 600; i++) {
      const file = damaged(Deno.readFileSync(made[i % made.length].path), i);
      const said = outcome(one, file);
      if (said !== outcome(other, file) || !/^3,/.test(said) || !fast.decode(file, headerOf(file))) continue;
      agreed++;
      assertEquals(
        outcome((file) => fast.decode(file, headerOf(file))!, file),
        said,
        made[i % made.length].path,
      );
    }
    assert(agreed > 50, `only ${agreed} files tell anything`);
  }),
});

Deno.test({
  name: `a file that is none is bad, with the library's words, and the next is good again ${
    turbo ? "" : needs
  }`.trim(),
  ignore: !turbo,
  fn: inFolder(async (folder) => {
    const made = (await makePictures(folder)).find(({ path }) => path.endsWith("/000.jpg"))!;
    const library = openTurboJpeg(turbo!);
    const [height, width] = made.shape, into = new Uint8Array(3 * width * height);
    assertEquals(library.decode(Uint8Array.of(1, 2, 3, 4), into, { width, height }, TJPF.rgb), "bad");
    assertMatch(library.reason(), /Not a JPEG file/);
    assertEquals(library.decode(Deno.readFileSync(made.path), into, { width, height }, TJPF.rgb), "good");
  }),
});

Deno.test("a path that holds no libturbojpeg is passed over", () => {
  assertEquals(findTurboJpeg(["/nowhere/libturbojpeg.so.0", "libc.so.6"]), null);
});
