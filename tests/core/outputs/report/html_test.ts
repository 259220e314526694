import { assertEquals } from "@std/assert";
import { escaped, Html, markup, scriptJson } from "../../../../core/outputs/report/html.ts";

Deno.test("what stands in a template is text, unless it is said to be HTML", () => {
  assertEquals(
    markup`<p title="${`a"b'c`}">${"<b>&"}</p>`.text,
    '<p title="a&quot;b&#39;c">&lt;b&gt;&amp;</p>',
  );
  assertEquals(markup`${new Html("<b>")}${["<i>", markup`<u>${"<"}</u>`]}`.text, "<b>&lt;i&gt;<u>&lt;</u>");
  assertEquals(markup`${null}${undefined}${false}${0}${""}`.text, "0");
});

Deno.test("control characters and halves of letters are replaced", () => {
  assertEquals(escaped("a\0b\x1bc\ud800d\te"), "a\ufffdb\ufffdc\ufffdd\te");
});

Deno.test("JSON in a script element neither ends it nor opens a comment, and stays the same data", () => {
  const hostile = { "</script>": ["<!--", "]]>", "\u2028\u2029", "\ud83d\ude80", '"\\'] };
  const text = scriptJson(hostile);
  assertEquals(/[<>&\u2028\u2029]/.test(text), false);
  assertEquals(JSON.parse(text), hostile);
  assertEquals(JSON.parse(scriptJson("\ud800")), "\ud800");
});
