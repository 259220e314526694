// Which operations a graph may call, against all that the loaded libtorch knows. Run with the oldest and the newest one;
// `./scripts/registry` takes those between them, too.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { admittedForms } from "../../core/models/exported/admitted.ts";
import { checkedOperations, checkOf } from "../../core/models/exported/arguments.ts";
import { refusedTarget, resolveOperator } from "../../core/models/exported/operators.ts";
import { operator } from "../../ffi/operators.ts";
import { useLibtorch } from "../libtorch.ts";
import { admittedOf } from "./admitted.ts";
import { registered } from "./registry.ts";
import seen from "./seen_operations.json" with { type: "json" };
import { assertSentence } from "../sentences.ts";

useLibtorch();
operator("aten::add", "Tensor"); // opens what is opened once
const all = registered();

const admitted = admittedOf(all);

const argumentsOf = (text: string) =>
  text.slice(text.indexOf("(") + 1, text.lastIndexOf(" -> ")).split(/, (?![^[]*\])/)
    .map((item) => item.replace(/=.*$/, "").replace(/\)$/, ""));

Deno.test("the whole registry is walked: thousands of operations, of which about a fifth may be in a graph", () => {
  assert(all.length > 3300, `${all.length} operations`);
  assert(admitted.length > 600 && admitted.length < 750, `${admitted.length} of them admitted`);
});

Deno.test("no admitted operation takes a file's name, a pointer, raw storage, a stream or an object of C++", () => {
  const harmful =
    /\b(Storage|Stream|Capsule|Any\w*|Dict|Future|RRef|QScheme|Dimname|__torch__\S*|classes)\b|file|path$|ptr|pointer|handle|address|data_?p/i;
  for (const { text } of admitted) {
    for (const argument of argumentsOf(text)) {
      // einsum's path is a list of numbers: the order of its products.
      if (argument !== "int[]? path") assert(!harmful.test(argument), `${argument} of ${text}`);
    }
  }
});

Deno.test("a text that an admitted operation takes names a way to compute", () => {
  const known =
    /^str(\?|\[\d*\])? (approximate|api_name|driver|equation|indexing|interpolation|mode|norm|ord|p|pad_mode|padding|padding_side|reduce|rounding_mode|side|UPLO)$/;
  for (const { text } of admitted) {
    for (const argument of argumentsOf(text)) if (/^str/.test(argument)) assertMatch(argument, known, text);
  }
});

Deno.test("no admitted operation makes a view without bounds, moves memory under a tensor or leaves out checks", () => {
  for (const { name, overload, text } of admitted) {
    const names = argumentsOf(text).map((argument) => argument.split(" ").at(-1));
    if (names.includes("stride") && names.includes("size")) {
      assert(checkOf({ name, overload, args: [] }) !== null, text);
    }
    assert(!/unsafe$|strided_|reinterpret|reshape_alias|^set_|resize|_data$|storage/.test(name), text);
    assert(!names.includes("unsafe") && !names.includes("storage"), text);
    assert(!/(^|_)out$/.test(overload), text);
  }
});

Deno.test("what an admitted operation writes to is the tensor that it is called on, and comes back", () => {
  for (const { name, overload, text } of admitted) {
    const { args } = operator(`aten::${name}`, overload)!.schema;
    const written = args.flatMap(({ memory }, i) => memory === "written" ? [i] : []);
    assert(written.length === 0 || written.join() === "0", text);
  }
});

Deno.test("every form that is admitted is an operation of this libtorch or of a later one", () => {
  const known = new Set(all.filter(({ namespace }) => namespace === "aten").map(({ name }) => name));
  assertEquals(admittedForms().filter((form) => !known.has(form.split(".")[0])), []);
});

Deno.test("every form that is admitted is one that a model was exported with, or one of PyTorch's core ones", () => {
  const known = new Set([...seen.core, ...Object.keys(seen.operations)]);
  assertEquals(admittedForms().filter((form) => !known.has(`aten.${form}`)), []);
});

/**
 * These write to a weight, change sizes in place, give a type, or are what run_decompositions() makes of pdist,
 * bilinear and as_strided_. Forms with out= are put inline before.
 */
const SEEN_AND_REFUSED = [
  "aten._pdist_forward.default",
  "aten._trilinear.default",
  "aten.as_strided_scatter.default",
  "aten.embedding_renorm.default",
  "aten.embedding_renorm_.default",
  "aten.pdist.default",
  "aten.promote_types.default",
  "aten.unsqueeze_.default",
];

Deno.test("what models were exported with is run, but for the few forms that are named here", () => {
  const forms = Object.keys(seen.operations).filter((form) => !/out$/.test(form));
  assertEquals(forms.filter((form) => refusedTarget(`torch.ops.${form}`) !== ""), SEEN_AND_REFUSED);
});

Deno.test("arguments are checked of no operation that is refused by its name", () => {
  const names = new Set(admittedForms().flatMap((form) => [form, form.split(".")[0]]));
  assertEquals(checkedOperations().filter((name) => !names.has(name)), []);
});

Deno.test("an operation that no model is known to be exported with is refused by its name, with what mends it", () => {
  const why = (target: string) => {
    const found = resolveOperator(`torch.ops.aten.${target}`);
    return found.kind === "missing" ? found.why : "";
  };
  assertSentence("ffi/admitted_operations: among operations models", why("special_bessel_j0.default"));
  assertMatch(
    why("tan_.default"),
    /write tan, and use what it gives, or call program.run_decompositions\(\)/,
  );
});

Deno.test("what opens files, takes memory, waits, prints or belongs to another library is refused by its name", () => {
  const targets = [
    ..."aten.from_file.default aten.set_.source_Storage aten.set_.source_Storage_storage_offset".split(" "),
    ..."aten.resize_.default aten._reshape_alias.default aten.as_strided_.default aten.set_data.default"
      .split(" "),
    ..."aten._index_put_impl_.default aten.segment_reduce.default aten.embedding_dense_backward.default"
      .split(" "),
    ..."aten._sparse_coo_tensor_unsafe.default aten._nested_view_from_buffer.default aten._print.default"
      .split(" "),
    ..."aten._foreach_add_.Scalar aten.quantize_per_tensor.default aten._cslt_compress.default".split(" "),
    ..."aten.record_stream.default aten.linalg_lu_solve.default aten.add.out aten.max.dim_max".split(" "),
    ..."inductor._reinterpret_tensor.default inductor._alloc_from_pool.default prims.convert_element_type.default"
      .split(" "),
    ..."image.read_file.default image.write_file.default torchvision.nms.default c10d.send.default".split(
      " ",
    ),
    ..."mkldnn._linear_pointwise.default quantized.linear.default higher_order.while_loop".split(" "),
  ];
  for (const target of targets) {
    const found = resolveOperator(`torch.ops.${target}`);
    assertEquals(found.kind, "missing", target);
  }
});
