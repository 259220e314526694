// Tables of characters: learnt from a text, and read as scripts in Python write them.
import { assertEquals, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../../core/base/errors.ts";
import { openTokenizer, tokenizerBeside } from "../../../../core/data/text/open.ts";
import { packText } from "../../../../core/data/text/pack.ts";
import { decode } from "../../../../core/data/text/tokenizer.ts";
import { inFolder, python } from "../../checkpoint/python.ts";

const TEXT = "Blow, winds, and crack your cheeks! 漢字 naïve 🌊\n".repeat(40);

Deno.test(
  "each character of a text is a token, numbered as sorted(set(text)) does, and the table lies beside the tokens",
  inFolder(async (folder) => {
    Deno.writeTextFileSync(join(folder, "text.txt"), TEXT);
    const out = join(folder, "out");
    const made = await packText({
      ...{ files: [join(folder, "text.txt")], out, tokenizer: "characters", field: "text", separator: "" },
      ...{ special: false, share: 0.1, seed: 1, progress() {} },
    });
    const tokenizer = tokenizerBeside({ data_path: out })!;
    const sorted = [...new Set(TEXT)].sort((a, b) => a.codePointAt(0)! - b.codePointAt(0)!);
    assertEquals([made.vocabulary, made.tokenizer], [sorted.length, "characters.json"]);
    assertEquals([...tokenizer.encode("🌊 wy")], ["🌊", " ", "w", "y"].map((one) => sorted.indexOf(one)));
    const train = new Uint16Array(Deno.readFileSync(join(out, "train.bin")).buffer);
    const val = new Uint16Array(Deno.readFileSync(join(out, "val.bin")).buffer);
    assertEquals(decode(tokenizer, [...train, ...val]), TEXT);
    assertThrows(() => tokenizer.encode("?"), UserError, 'characters.json has no character "?"');
  }),
);

Deno.test(
  "nanoGPT's meta.pkl and tables as JSON say the same, and what is none is refused",
  inFolder((folder) => {
    python(
      `import json, os, pickle, sys
os.chdir(sys.argv[1])
characters = sorted(set("to be 漢"))
stoi = {c: i for i, c in enumerate(characters)}; itos = dict(enumerate(characters))
pickle.dump({"vocab_size": len(characters), "itos": itos, "stoi": stoi}, open("meta.pkl", "wb"))
json.dump(characters, open("list.json", "w")); json.dump(stoi, open("stoi.json", "w")); json.dump(itos, open("itos.json", "w"))
json.dump({"stoi": stoi}, open("both.json", "w")); json.dump(["a", "bc"], open("words.json", "w"))
pickle.dump([1, 2], open("other.pkl", "wb")); open("damaged.pkl", "wb").write(b"\\x80\\x04junk")`,
      folder,
    );
    for (const name of ["meta.pkl", "list.json", "stoi.json", "itos.json", "both.json"]) {
      const tokenizer = openTokenizer(join(folder, name));
      assertEquals([...tokenizer.encode("be 漢")], [1, 2, 0, 5], name);
      assertEquals(decode(tokenizer, [4, 3]), "to", name);
    }
    assertEquals([...tokenizerBeside({ data_path: folder })!.encode("o")], [3]);
    for (const name of ["other.pkl", "damaged.pkl"]) {
      assertThrows(() => openTokenizer(join(folder, name)), UserError, "is no table of characters");
    }
    assertThrows(() => openTokenizer(join(folder, "words.json")), UserError);
  }),
);
