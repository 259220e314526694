// Text tables: the numbers that pandas-like readers find in them, however they are written, and what is refused.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { reader as csv, withTable } from "../../../../../core/data/formats/csv/csv.ts";
import { plainNumber } from "../../../../../core/data/formats/csv/cells.ts";
import { opened, refusedData } from "../../opened.ts";
import { useLibtorch } from "../../../../libtorch.ts";
import { inFolder, python } from "../../../checkpoint/python.ts";
import { all, type Changes, opener, refusal } from "../../tables/columns_help.ts";
import { assertSentence, sentenceNamed } from "../../../../sentences.ts";

useLibtorch();

const open = opener(csv.open);

function text(folder: string, content: string | Uint8Array): string {
  const path = `${folder}/t.csv`;
  Deno.writeFileSync(path, typeof content === "string" ? new TextEncoder().encode(content) : content);
  return path;
}

const refused = (folder: string, content: string | Uint8Array, data: Changes = {}) =>
  refusal(() => open(text(folder, content), data));

Deno.test(
  "what numpy and Python's csv module write is read to the last bit of a 32-bit number",
  inFolder((folder) => {
    const written: Record<string, number[]> = JSON.parse(python(
      `
import sys, csv, json, numpy as np
r = np.random.default_rng(0); out = {}
x = (r.normal(size=(500, 6)) * 10.0 ** r.integers(-30, 30, (500, 6))).astype("f8")
x[0] = [0, -0.0, 1e-45, 3.4e38, 16777217.0, 0.1]
def said(name, values): out[name] = values.astype("f4").ravel().tolist()
for i, f in enumerate(["%.18e", "%.9g", "%.3f", "%.17g"]):
    np.savetxt(f"{sys.argv[1]}/{i}.csv", x, delimiter=[",", ";", "\\t", " "][i], fmt=f, header="a b c d e f".replace(" ", [",", ";", "\\t", " "][i]), comments="# " if i % 2 else "")
    said(f"{i}.csv", np.array([[float(f % v) for v in row] for row in x.tolist()]))
with open(sys.argv[1] + "/m.csv", "w", newline="") as f:
    w = csv.writer(f, quoting=csv.QUOTE_ALL); w.writerow("abcdef"); w.writerows(x.tolist())
said("m.csv", x)
print(json.dumps(out))`,
      folder,
    ));
    for (const [name, values] of Object.entries(written)) {
      const names = ["a", "b", "c", "d", "e", "f"];
      const { train } = open(`${folder}/${name}`, { features: names.slice(0, 5), targets: ["f"] }, {
        loss: "mse",
      });
      const x = all(train, "input"), y = all(train, "target");
      assertEquals(
        y.flatMap((value, i) => [...x.slice(5 * i, 5 * i + 5), value]).map((v) => v + 0),
        values.map((v) => v + 0),
        name,
      );
    }
  }),
);

Deno.test("numbers of many digits are rounded as the language rounds them", () => {
  const cases = [
    "1",
    "-1.5",
    "+.5",
    "5.",
    "1e3",
    "1E-3",
    "12345678901234567890",
    "0.1234567890123456789012",
    "1e40",
    "-0",
  ];
  // Halfway between two 32-bit numbers, and a little above: only the last digit tells.
  cases.push(
    "1.000000178813934326171875",
    "1.000000059604644775390625",
    "1.000000059604644775390626",
    "16777217.000000000000000001",
  );
  for (const written of [...cases, "9007199254740993", "0.000000000000000000000000000001"]) {
    const bytes = new TextEncoder().encode(written);
    assertEquals(Math.fround(plainNumber(bytes, 0, bytes.length)), Math.fround(Number(written)), written);
  }
  for (const word of ["", "-", ".", "1.2.3", "1e", "e5", "1e5x", "0x10", "1,5", "2020-01-01", "--1"]) {
    const bytes = new TextEncoder().encode(word);
    assertEquals(plainNumber(bytes, 0, bytes.length), NaN, word);
  }
});

const LAYOUTS: [what: string, content: string][] = [
  ["commas and names", "a,b,y\n1,2,0.5\n3,4,1.5\n"],
  ["semicolons", "a;b;y\n1;2;0.5\n3;4;1.5\n"],
  ["tabs", "a\tb\ty\n1\t2\t0.5\n3\t4\t1.5\n"],
  ["spaces, some of them leading", "  a b   y\n  1 2 0.5  \n 3   4 1.5\n"],
  ["a name with a space in it", "a,b,my y\n1,2,0.5\n3,4,1.5\n"],
  ["spaces around cells", "a, b , y\n1 , 2, 0.5\n 3,4 , 1.5 \n"],
  ["quotes", '"a","b, ""or c""","y"\n"1","2","0.5"\n3,"4",1.5\n'],
  ["a quoted line end", '"a","b\nc","y"\n1,2,0.5\n3,4,1.5\n'],
  ["the line ends of Windows", "a,b,y\r\n1,2,0.5\r\n3,4,1.5\r\n"],
  ["a byte order mark", "\ufeffa,b,y\n1,2,0.5\n3,4,1.5\n"],
  ["no line end at the end", "a,b,y\n1,2,0.5\n3,4,1.5"],
  ["empty lines", "\n\na,b,y\n1,2,0.5\n\n3,4,1.5\n\n \n"],
  ["no names", "1,2,0.5\n3,4,1.5\n"],
  ["remarks above the names", "# made by hand\n# a b y\n1 2 0.5\n3 4 1.5\n"],
  ["a remark that is no names", "# made by hand\n1,2,0.5\n3,4,1.5\n"],
  ["names that are numbers among words", "a,2020,y\n1,2,0.5\n3,4,1.5\n"],
  ["the names pandas gives", "0,1,2\n1,2,0.5\n3,4,1.5\n"],
  ["a column of row numbers as pandas writes it", ",a,b,y\n0,1,2,0.5\n1,3,4,1.5\n"],
  ["exponents", "a,b,y\n1e0,0.2E1,5e-1\n30e-1,.04e+2,15E-1\n"],
];

for (const [what, content] of LAYOUTS) {
  Deno.test(
    `read: ${what}`,
    inFolder((folder) => {
      const { train } = open(text(folder, content));
      assertEquals([all(train, "input"), all(train, "target")], [[1, 2, 3, 4], [0.5, 1.5]]);
    }),
  );
}

Deno.test(
  "a note says how the file was read; columns are chosen by name, or by number from 0",
  inFolder((folder) => {
    const named = open(text(folder, "a;b;y\n1;2;0.5\n3;4;1.5\n"), { features: ["b"], targets: ["a"] }, {
      loss: "mse",
    });
    assertEquals(all(named.train, "input"), [2, 4]);
    assertSentence("core/data/formats/csv/csv: read text semicolons", named.notes[0]);
    const plain = open(text(folder, "1,2,0.5\n3,4,1.5\n"), { targets: ["1"] }, { loss: "mse" });
    assertEquals([all(plain.train, "input"), all(plain.train, "target")], [[1, 0.5, 3, 1.5], [2, 4]]);
    assertSentence("core/data/formats/csv/csv: read text commas", plain.notes[0]);
  }),
);

Deno.test(
  "empty cells and the usual words for nothing are missing, and whole numbers beside them still classes",
  inFolder((folder) => {
    const content = "a,y\n1,0\n,1\nNA,1\nnan,2\n5,null\n6,?\n7,2\n";
    assertSentence("core/data/formats/csv/csv: column nan infinite", refused(folder, content));
    const { train, notes } = open(text(folder, content), { bad_samples: "skip" });
    assertEquals([all(train, "input"), all(train, "target")], [[1, 7], [0, 2]]);
    assertEquals([train.facts.task, train.facts.outputs], ["classification", 3]);
    assert(notes.some((note) => note.startsWith("Left out 5 of 7 samples")), notes.join("\n"));
    assert(refused(folder, "a,y\n1,2\ninf,3\n").includes("missing in 1 of 2 samples"));
  }),
);

Deno.test(
  "text in the one target is classes in sorted order; a point makes a quantity of whole numbers",
  inFolder((folder) => {
    const iris = "5.1,3.5,setosa\n6.2,2.9,virginica\n5.9,3.0,setosa\n5.5,2.3,versicolor\n";
    const { train, notes } = open(text(folder, iris));
    assertEquals([all(train, "target"), train.facts.outputs], [[0, 2, 0, 1], 3]);
    assert(notes[1].endsWith("classes in sorted order: 0 = setosa, 1 = versicolor, 2 = virginica"), notes[1]);
    const missing = open(text(folder, 'x,kind\n1,"b"\n2,\n3,a\n'), { bad_samples: "skip" }).train;
    assertEquals(all(missing, "target"), [1, 0]);
    assertEquals(open(text(folder, "x,y\n1,True\n2,False\n")).train.facts.outputs, 2);
    assertEquals(open(text(folder, "x,y\n1,5.0\n2,6.0\n")).train.facts.task, "regression");
    assertEquals(
      open(text(folder, "x,y\n1,5\n2,6\n"), {}, {}, { output_size: 1 }).train.facts.task,
      "regression",
    );
    const feature = refused(folder, "colour,y\nred,1.5\nblue,2.5\n");
    assertSentence("core/data/formats/csv/csv: column colour holds", feature);
    const among = refused(folder, "x,y\n1,1.5\n2,2.5\n3,3.l5\n");
    assertSentence("core/data/formats/csv/csv: column line among", among);
    const comma = refused(folder, "x;y\n1;2\n2;3\n3;2,5\n");
    assertSentence("core/data/formats/csv/csv: line among numbers", comma);
    assertEquals(open(text(folder, "name,x,y\nann,1,0.5\nbob,2,1.5\n"), { features: ["x"] }).train.length, 2);
  }),
);

Deno.test(
  "a first row of data stays one, though a value below it is missing, and names stay names",
  inFolder((folder) => {
    const { train } = open(text(folder, "1.5,2,red\n2.5,3,\n3.5,4,blue\n"), { bad_samples: "skip" });
    assertEquals([all(train, "input"), all(train, "target")], [[1.5, 2, 3.5, 4], [1, 0]]);
    assertEquals(all(open(text(folder, "a,1990,y\n,,\n1,2,0.5\n"), { bad_samples: "skip" }).train, "input"), [
      1,
      2,
    ]);
  }),
);

Deno.test(
  "whole numbers that floats of 32 bits round still tell samples apart",
  inFolder((folder) => {
    const rows = [0, 1, 2, 3].map((i) => `${i},${100_000_000 + i},0.${i}\n`).join("");
    const of = (data: Changes) => {
      const config = { features: ["x"], targets: ["y"], val_samples: 9, ...data };
      return open(text(folder, `x,patient,y\n${rows}`), config);
    };
    const { train, val } = of({ validate_on: "patient=100000001" });
    assertEquals([all(train, "input"), all(val!, "input")], [[0, 2, 3], [1]]);
    assertEquals(all(of({ validate_on: "y=0.3" }).val!, "input"), [3]);
    assertEquals(all(of({ validate_on: "y=0.1..0.2" }).val!, "input"), [1, 2]);
    const [patient, again] = withTable(
      `${folder}/t.csv`,
      ({ columns }) => [columns[1].read(), columns[1].read()],
    );
    assert(patient === again, "the file is parsed for each read");
  }),
);

const BAD: [what: string, content: string | Uint8Array, sentences: string[]][] = [
  ["an empty file", "", ["is empty"]],
  ["blanks", "\n \n", ["has nothing in it"]],
  ["a line with a cell too few", "a,b,y\n1,2,3\n4,5\n6,7,8\n", [
    sentenceNamed("core/data/formats/csv/csv: line cells lines"),
  ]],
  ["a cell too many in line 30", "a,y\n" + "1,2\n".repeat(28) + "1,2,3\n", ["line 30 has 3 cells"]],
  ["a ragged line after a quoted line end", 'a,b\n"1\n",2\n3\n', ["line 4 has 1 cell,"]],
  ["a quote that is never closed", 'a,y\n1,"2\n3,4\n', ["the quote in line 2 is never closed"]],
  ["text behind a quote", 'a,y\n1,2\n"5" pipe",3\n', ["line 3 has text behind the closing quote"]],
  ["one column", "y\n1\n2\n", ["leaves no column to learn from: it has y"]],
  ["names and nothing else", "a,b,y\n", ["holds no samples"]],
  ["two columns of one name", "a,a,y\n1,2,3\n", ['line 1 names two columns "a"']],
  ["gzip", new Uint8Array([0x1f, 0x8b, 8, 0]), ["is a gzip file: unpack it first"]],
  ["a spreadsheet", new TextEncoder().encode("PK\x03\x04"), ["is a zip file (xlsx is one too)"]],
  ["UTF-16", new Uint8Array([0xff, 0xfe, 65, 0]), ["is UTF-16 text"]],
  ["bytes that are no text", new Uint8Array([1, 2, 0, 3]), ["is no text: it has zero bytes in it"]],
];

for (const [what, content, sentences] of BAD) {
  Deno.test(
    `refused: ${what}`,
    inFolder((folder) => {
      const message = refused(folder, content);
      for (const sentence of sentences) assert(message.includes(sentence), message);
      assert(message.includes("t.csv") && message.endsWith("."), message);
    }),
  );
}

Deno.test(
  "a table of 200,000 columns takes about four times as long as one of 50,000, and a name that two of them have is found",
  inFolder((folder) => {
    const written = (lines: readonly (readonly string[])[]) =>
      lines.map((cells) => cells.join(",")).join("\n");
    const linesOf = (width: number) => {
      const names = Array.from({ length: width }, (_, i) => `c${i}`);
      return [names, ...[1, 2, 3].map((row) => names.map((_, i) => String((i + row) % 7)))];
    };
    const seconds = (lines: readonly (readonly string[])[]) => {
      const path = text(folder, written(lines)), began = performance.now();
      assertEquals(open(path).train.length, 3);
      return (performance.now() - began) / 1000;
    };
    const wide = linesOf(200_000), some = seconds(linesOf(50_000)), all = seconds(wide);
    assert(all < 10 * some, `each name was searched for among all others: ${some} s and ${all} s`);
    wide[0].splice(-1, 1, "c7");
    assertEquals(refused(folder, written(wide)).includes('names two columns "c7"'), true);
  }),
);

Deno.test(
  "auto goes by the ending of a table of text, in capitals, too",
  inFolder((folder) => {
    Deno.writeTextFileSync(`${folder}/T.CSV`, "a,b,y\n" + "1,2,0.5\n".repeat(20));
    const { train, val, notes } = opened({ data_path: `${folder}/T.CSV` });
    assertEquals([train.length, val!.length, train.facts.outputs], [18, 2, 1]);
    assertEquals(notes, [
      sentenceNamed("core/data/formats/csv/csv: data csv features", { folder }),
      sentenceNamed("core/data/formats/csv/csv: read names commas"),
    ]);
    const { kind, message } = refusedData({ type: "csv" });
    assertEquals(kind, "usage");
    assert(message.includes("needs --data-path"), message);
  }),
);

Deno.test(
  "a folder or a pipe in place of a table is refused as data, and not as a checkpoint",
  inFolder((folder) => {
    new Deno.Command("mkfifo", { args: [`${folder}/pipe`] }).outputSync();
    for (
      const [path, says] of [[folder, "is a folder, and data"], [`${folder}/pipe`, "is not a regular file"]]
    ) {
      assertStringIncludes(refusal(() => open(path, {})), says);
    }
  }),
);
