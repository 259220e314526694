// Folders of images beside torchvision's ImageFolder, and a sentence for each that can't be used.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { dirname, join } from "paths";
import {
  imageCount,
  imagePath,
  labelOf,
  listImages,
  type Listing,
} from "../../../../core/data/images/listing.ts";
import { askPeer } from "../../../peer.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { refusal } from "../tables/columns_help.ts";
import { range } from "../tables/help.ts";
import { assertSentence } from "../../../sentences.ts";

function touch(root: string, ...paths: string[]): void {
  for (const path of paths) {
    Deno.mkdirSync(dirname(join(root, path)), { recursive: true });
    Deno.writeFileSync(join(root, path), new Uint8Array(0));
  }
}

const samplesOf = (listing: Listing) =>
  range(0, imageCount(listing)).map((i): [string, number] => [imagePath(listing, i), labelOf(listing, i)]);

Deno.test(
  "classes and samples are torchvision's, in its order: nested folders, links, capitals, characters of every length",
  inFolder(async (folder) => {
    const root = join(folder, "data");
    touch(root, "cat/b.jpg", "cat/a.JPG", "cat/10.png", "cat/9.png", "cat/Z.webp", "cat/z.jpeg", "cat/x.PnG");
    touch(root, "cat/sub/a.jpg", "cat/sub-1/a.jpg", "cat/sub/deep/c.jpg", "cat/sub.1/c.jpg", "cat/notes.txt");
    touch(
      root,
      "Dog/é.jpg",
      "Dog/e.jpg",
      "Dog/\u{ff5e}.jpg",
      "Dog/\u{1f415}.jpg",
      "Dog/.hidden.jpg",
      "Dog/a b.jpg",
    );
    touch(root, "\u{1f422}/1.jpg", "\u{ff5e}/1.jpg", "10/1.jpg", "9/1.jpg", "readme.jpg");
    touch(folder, "elsewhere/linked.jpg", "elsewhere/more/linked.png");
    Deno.symlinkSync(join(folder, "elsewhere"), join(root, "cat/link"));
    Deno.symlinkSync(join(folder, "elsewhere"), join(root, "linked"));
    Deno.symlinkSync(join(folder, "elsewhere/linked.jpg"), join(root, "Dog/link.jpg"));
    const { classes, listing, others } = listImages(root);
    const expected = await askPeer<{ classes: string[]; samples: [string, number][] }>(
      "data/images.py",
      { what: "folder", folder: root },
    );
    assertEquals(classes, expected.classes);
    assertEquals(samplesOf(listing), expected.samples);
    assertEquals(others, { count: 1, example: "cat/notes.txt" });
  }),
);

Deno.test(
  "a listing is shared memory: as many bytes as its names, and no string for each",
  inFolder((folder) => {
    touch(folder, ...range(0, 600).map((i) => `${i % 3}/image-${i}.jpg`));
    const { listing } = listImages(folder);
    assert(
      listing.names.buffer instanceof SharedArrayBuffer && listing.ends.buffer instanceof SharedArrayBuffer,
    );
    assertEquals(listing.folders.length, 3);
    assertEquals(new Set(samplesOf(structuredClone(listing)).map(([path]) => path)).size, 600);
  }),
);

Deno.test(
  "a folder that can't be used is refused with what is wrong with it",
  inFolder((folder) => {
    const refused = (name: string) => refusal(() => listImages(join(folder, name)));
    assertMatch(refused("nowhere"), /^Images: there is no folder .+\/nowhere\. Check data\.data_path/);
    touch(folder, "file.jpg", "flat/a.jpg", "flat/b.jpg", "empty/cat/a.jpg", "empty/dog/notes.txt");
    assertSentence("core/data/images/listing: file jpg file", refused("file.jpg"));
    assertMatch(
      refused("flat"),
      /has 2 images \(.\.jpg, \.\.\.\) but no folders in it: put the images of each class/,
    );
    assertMatch(
      refused("empty"),
      /^The class folder .+empty\/dog has no images in it: none of its files ends in \.jpg, .+ \(there are other files, such as dog\/notes\.txt\)/,
    );
    Deno.mkdirSync(join(folder, "bare"));
    assertSentence("core/data/images/listing: bare folders folder", refused("bare"));
    touch(folder, "round/cat/a.jpg");
    Deno.symlinkSync(join(folder, "round/cat"), join(folder, "round/cat/again"));
    assertMatch(refused("round"), /is 40 folders deep: a link in it leads back/);
  }),
);

Deno.test(
  "a folder that this user may not read is named",
  inFolder(async (folder) => {
    touch(folder, "cat/a.jpg");
    Deno.chmodSync(join(folder, "cat"), 0);
    // The superuser may read everything, unless that right is taken away.
    const likeOthers = Deno.uid() === 0 ? ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] : [];
    const module = new URL("../../../../core/data/images/listing.ts", import.meta.url);
    const program = `import { listImages } from "${module}"; ` +
      "try { listImages(Deno.args[0]); } catch (error) { console.log(error.message); }";
    const config = new URL("../../../../deno.json", import.meta.url).pathname;
    Deno.writeTextFileSync(join(folder, "list.ts"), program);
    const deno = [Deno.execPath(), "run", "--no-check", "--allow-read", `--config=${config}`];
    const [command, ...args] = [...likeOthers, ...deno, join(folder, "list.ts"), folder];
    const { stdout } = await new Deno.Command(command, { args }).output();
    assertMatch(
      new TextDecoder().decode(stdout),
      /^Images: the folder .+\/cat can't be read: this user may not\. Ask its owner for permission/,
    );
    Deno.chmodSync(join(folder, "cat"), 0o755);
  }),
);
