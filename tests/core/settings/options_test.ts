// Options that are no settings.
import { assertEquals, assertStringIncludes } from "@std/assert";
import { parseOptions } from "../../../core/settings/options.ts";
import { sentence } from "./helpers.ts";
import { assertSentence } from "../../sentences.ts";

const SPEC = {
  json: { kind: "bool", help: "print JSON" },
  out: { kind: "text", help: "where to", value: "FILE" },
} as const;
const read = (...argv: string[]) => parseOptions(argv, SPEC, "hpctrain x FILE");

Deno.test("options and positionals may stand in any order", () => {
  const { options, positionals } = read("a", "--out", "b", "c", "--json");
  const out: string | undefined = options.out;
  const json: boolean = options.json;
  assertEquals([out, json, ...positionals], ["b", true, "a", "c"]);
});

Deno.test("an option that is not given is false or undefined", () => {
  assertEquals(read().options, { json: false, out: undefined });
  assertEquals(read("--json", "--no-json", "--out=x=y").options, { json: false, out: "x=y" });
});

Deno.test("all after -- is positional, and - is too", () => {
  assertEquals(read("-", "--", "--json").positionals, ["-", "--json"]);
});

Deno.test("mistakes are refused with a hint and the usage", () => {
  assertSentence("core/settings/options: unknown flag jsn", sentence(() => read("--jsn")));
  assertStringIncludes(sentence(() => read("--out")), "--out needs FILE. Usage: hpctrain x FILE");
  assertStringIncludes(sentence(() => read("--json=yes")), '--json takes no value, but got "yes".');
  assertStringIncludes(sentence(() => read("--hasOwnProperty")), "Unknown flag --hasOwnProperty.");
});

Deno.test("a list takes the words up to the next flag, and may be given again", () => {
  const spec = {
    of: { kind: "list", help: "some", value: "NAME" },
    json: { kind: "bool", help: "JSON" },
  } as const;
  const list = (...argv: string[]) => parseOptions(argv, spec, "hpctrain x");
  assertEquals(list().options.of, []);
  assertEquals(list("d", "--of", "a=1", "b<-2", "--json", "--of=c"), {
    options: { of: ["a=1", "b<-2", "c"], json: true },
    positionals: ["d"],
  });
  assertEquals(list("--of=a", "d").positionals, ["d"]);
  assertStringIncludes(sentence(() => list("--of", "--json")), "--of needs NAME. Usage: hpctrain x");
});

Deno.test("a text that may stand alone has its own value there, and takes the word behind it", () => {
  const spec = {
    ...SPEC,
    html: { kind: "text", help: "a page", value: "[FILE]", alone: "runs.html" },
  } as const;
  const html = (...argv: string[]) => parseOptions(argv, spec, "hpctrain x").options.html;
  assertEquals([html(), html("--html"), html("--html", "--json")], [undefined, "runs.html", "runs.html"]);
  assertEquals([html("--html", "a.html"), html("--html=b.html")], ["a.html", "b.html"]);
});
