import { assert, assertEquals } from "@std/assert";

const program = new URL("freed_memory_program.ts", import.meta.url).pathname;

Deno.test("a large buffer that was given back is taken again without asking the kernel for its pages", async () => {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--allow-all", "--no-check", "--quiet", program],
  }).output();
  assertEquals(success, true, new TextDecoder().decode(stderr));
  const { asGlibcDoes, kept } = JSON.parse(new TextDecoder().decode(stdout));
  assert(4 * kept < asGlibcDoes, `${kept} pages, ${asGlibcDoes} before`);
});
