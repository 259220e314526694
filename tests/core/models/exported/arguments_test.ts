// A storm of operations with odd arguments: each program is run or refused in a sentence, none ends the process by a signal,
// none takes a minute. HPCTRAIN_STORM says how many; `./scripts/storm arguments` takes 10,000. The seed of each case is its
// own: `./scripts/storm arguments 1 SEED` runs it again, alone.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { join } from "paths";
import { resolveOperator, UnfitOperator } from "../../../../core/models/exported/operators.ts";
import type { DType } from "../../../../ffi/dtype.ts";
import { tensor } from "../../../../ffi/make.ts";
import { Num, operator } from "../../../../ffi/operators.ts";
import { randn, reshape, toDtype } from "../../../../ffi/ops.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { build, COMPILER } from "../../../native/double.ts";
import { askPeer } from "../../../peer.ts";
import { addOutcome, type Outcome, startWorker } from "./storm_worker.ts";

const CASES = Number(Deno.env.get("HPCTRAIN_STORM") ?? 300);
/** Among the 300 from here on are two at which the process ended before there were checks. */
const SEED = Number(Deno.env.get("HPCTRAIN_STORM_SEED") ?? 36_200);
const LONGEST_MS = 60_000;
const WORKER = new URL("arguments.ts", import.meta.url);

/** Where there is a compiler, what reads or writes outside of tensors ends by a signal, too. */
const fences = (folder: string): Record<string, string> =>
  COMPILER ? { LD_PRELOAD: build("fences.c", join(folder, "fences.so")) } : {};

Deno.test(`${CASES} programs with odd arguments, from seed ${SEED} on: run or refused, no signal, nothing that hangs`, async () => {
  const folder = Deno.makeTempDirSync(), note = join(folder, "note");
  try {
    await askPeer("export_storm.py", { folder });
    const env = fences(folder), sum: Outcome = { ran: 0, refused: 0, odd: [] }, ended: string[] = [];
    for (let from = 0; from < CASES;) {
      Deno.writeTextFileSync(note, `${from} 0 0`);
      const worker = startWorker(WORKER, [folder, SEED, from, CASES, note], { env });
      const watch = watched(note, () => worker.kill("SIGKILL"));
      const { signal, code, stdout, stderr } = await worker.output();
      watch.end();
      if (code === 0) {
        addOutcome(sum, stdout);
        break;
      }
      const [at, ran, refused, ...told] = Deno.readTextFileSync(note).split(" ");
      const how = watch.hung ? "it hangs" : signal ?? code;
      ended.push(
        `seed ${SEED + Number(at)}: ${how}: ${told.join(" ")}: ${
          new TextDecoder().decode(stderr).slice(-300)
        }`,
      );
      sum.ran += Number(ran);
      sum.refused += Number(refused);
      from = Number(at) + 1;
      assert(ended.length < 1 + CASES / 20, ended.join("\n"));
    }
    if (CASES > 300) {
      console.log(
        `${CASES} drawn from seed ${SEED} on: ${sum.ran} ran, ${sum.refused} were refused, ${ended.length} ended the process`,
      );
    }
    assertEquals([ended.join("\n"), sum.odd.join("\n")], ["", ""]);
    assert(
      CASES < 100 || (sum.ran > CASES / 5 && sum.refused > CASES / 5),
      `${sum.ran} ran, ${sum.refused} were refused`,
    );
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

/** Ends it where one case takes too long. */
function watched(note: string, kill: () => void) {
  const found = {
    hung: false,
    end: () => clearInterval(timer),
  };
  const timer = setInterval(() => {
    const changed = Deno.statSync(note).mtime!.getTime();
    if (found.hung || Date.now() - changed < LONGEST_MS) return;
    found.hung = true;
    kill();
  }, 1000);
  return found;
}

useLibtorch();
// Opens what is opened once.
scope(() => operator("aten::histc", "")!.call!(tensor([1])));

const LEAST = -(2n ** 63n);
const whole = (...values: (number | bigint)[]) => tensor(BigInt64Array.from(values, BigInt));
const double = (value: number) => tensor(Float64Array.of(value), [1]);
const heads = (count = 2, keys = 4) => randn([2, count, keys, 8]);
const half = (dtype: DType) => toDtype(tensor([-(2 ** 31), 5]), dtype);

/** An operation, arguments at which libtorch ends the process, hangs or leaves its tensors, the reason given, and honest ones. */
const TABLE: readonly [string, () => unknown[], RegExp, () => unknown[]][] = [
  [
    "_embedding_bag.default",
    () => [randn([9, 4]), whole(1, 2, 3, 4), whole(0, 3, 1)],
    /its offsets don't begin at 0, run backwards/,
    () => [randn([9, 4]), whole(1, 2, 3, 4), whole(0, 1, 3)],
  ],
  [
    "embedding_bag.padding_idx",
    () => [randn([9, 4]), whole(1, 2, 3, 4), whole(0, 1, 2), false, 0, false, randn([4]), true, null],
    /its last offset is not the number of its indices/,
    () => [randn([9, 4]), whole(1, 2, 3, 4), whole(0, 1, 4), false, 0, false, randn([4]), true, null],
  ],
  [
    "embedding_bag.padding_idx",
    () => [randn([9, 4]), whole(1, 9), whole(0, 1), false, 2, false, null, false, null],
    /its indices are not all among its 9 rows/,
    () => [randn([9, 4]), whole(1, 8), whole(0, 1), false, 2, false, null, false, null],
  ],
  [
    "embedding_bag.padding_idx",
    () => [randn([9, 4]), whole(1, 2), whole(), false, 1, false, null, false, null],
    /it has no offsets/,
    () => [randn([9, 4]), whole(), whole(), false, 1, false, null, false, null],
  ],
  [
    "_scaled_dot_product_flash_attention_for_cpu.default",
    () => [heads(), heads(2, 0), heads(2, 0)],
    /do not have the sizes that belong together/,
    () => [heads(), heads(2, 3), heads(2, 3)],
  ],
  [
    "_scaled_dot_product_flash_attention_for_cpu.default",
    () => [heads(3), heads(2), heads(2)],
    /do not have the sizes that belong together/,
    () => [heads(3), heads(3), heads(3), 0, false, randn([4, 4])],
  ],
  [
    "embedding_bag.padding_idx",
    () => [randn([9, 4]), whole(1, 2), whole(0, 1), false, 8, false, null, false, null],
    /its mode is none of/,
    () => [randn([9, 4]), whole(1, 2), whole(0, 1), false, 2, false, null, false, null],
  ],
  [
    "div.Tensor_mode",
    () => [whole(LEAST, 5), whole(-1, 2), "trunc"],
    /the smallest of all integers/,
    () => [whole(-5, 5), whole(-1, 2), "trunc"],
  ],
  [
    "div.Scalar_mode",
    () => [half("i32"), new Num(-1, "int"), "trunc"],
    /the smallest of all integers/,
    () => [half("i32"), new Num(-2, "int"), "trunc"],
  ],
  [
    "divide.Tensor_mode",
    () => [half("i32"), toDtype(whole(-1), "i32"), "trunc"],
    /the smallest of all integers/,
    () => [half("i32"), toDtype(whole(-1), "i32"), "floor"],
  ],
  [
    "_upsample_bilinear2d_aa.default",
    () => [randn([1, 2, 4, 4]), [8, 8], false, 0.001, 0.001],
    /its scales are not those between its sizes/,
    () => [randn([1, 2, 4, 4]), [8, 8], false, 2, 2],
  ],
  [
    "conv2d.default",
    () => [randn([1, 2, 4, 4]), randn([2, 2, 3, 3]), null, [1, 1], [2 ** 31 - 1, 2 ** 31 - 1]],
    /its window is larger/,
    () => [randn([1, 2, 4, 4]), randn([2, 2, 3, 3]), null, [1, 1], [1, 1]],
  ],
  [
    "special_zeta.other_scalar",
    () => [double(3), new Num(-1e14 + 0.5, "float")],
    /a value below -4096/,
    () => [double(3), new Num(2, "float")],
  ],
  ["polygamma.default", () => [2, double(-1e12 + 0.5)], /a value below -4096/, () => [2, double(2)]],
  ["bincount.default", () => [whole(5, 2n ** 50n)], /this machine has memory for/, () => [whole(5, 7)]],
  [
    "repeat_interleave.Tensor",
    () => [whole(2n ** 62n, 2n ** 62n, 2n ** 62n, 2n ** 62n)],
    /this machine has memory for/,
    () => [whole(2, 0)],
  ],
  [
    "repeat_interleave.self_Tensor",
    () => [randn([3, 2]), whole(1, -1, 2), 0],
    /it repeats less than no times/,
    () => [randn([3, 2]), whole(1, 0, 2), 0],
  ],
  [
    "repeat_interleave.self_int",
    () => [whole(1, 2), 2 ** 52],
    /this machine has memory for/,
    () => [whole(1, 2), 2],
  ],
  [
    "fractional_max_pool2d.default",
    () => [randn([1, 2, 7, 7]), [2, 2], [3, 3], reshape(tensor([1e9, 0, 0, 0]), [1, 2, 2])],
    /its random samples/,
    () => [randn([1, 2, 7, 7]), [2, 2], [3, 3], reshape(tensor([0.1, 0, 0.9, 0.5]), [1, 2, 2])],
  ],
];

for (const [name, odd, why, honest] of TABLE) {
  Deno.test(`${name} with arguments at which libtorch would fail is refused, ${why.source}; honest ones are run`, () => {
    const found = resolveOperator(`torch.ops.aten.${name}`);
    assert(found.kind === "op");
    const call = found.op.call!;
    scope(() => {
      assertMatch(assertThrows(() => call(...odd()), UnfitOperator).message, why);
      call(...honest());
    });
  });
}

Deno.test("what passed is looked at again where a shape or a number is another", () => {
  const found = resolveOperator("torch.ops.aten.conv2d.default");
  assert(found.kind === "op");
  const call = found.op.call!;
  scope(() => {
    const weight = randn([2, 2, 3, 3]), strides = [1, 1];
    for (let i = 0; i < 2; i++) call(randn([1, 2, 4, 4]), weight, null, strides);
    assertThrows(() => call(randn([1, 2, 2, 4]), weight, null, strides), UnfitOperator, "its window");
    call(randn([1, 2, 4, 4]), weight, null, strides, [0, 0]);
    assertThrows(
      () => call(randn([1, 2, 4, 4]), weight, null, strides, [0, 0], [2, 2]),
      UnfitOperator,
      "its window",
    );
  });
});

Deno.test("numbers in the place of tensors are checked as those are", () => {
  const found = resolveOperator("torch.ops.aten.div.Tensor_mode");
  assert(found.kind === "op" && found.op.numbers !== null);
  const { numbers } = found.op;
  scope(() => {
    assertThrows(
      () => numbers(whole(LEAST), new Num(-1, "int"), "trunc"),
      UnfitOperator,
      "the smallest of all integers",
    );
    numbers(whole(LEAST), new Num(-2, "int"), "trunc");
  });
});

Deno.test("internals of libtorch that no export writes are refused by name, with what mends it", () => {
  for (
    const name of [
      "_convolution",
      "_batch_norm_with_update_functional",
      "_euclidean_dist",
      "_unique",
      "_pad_enum",
    ]
  ) {
    const found = resolveOperator(`torch.ops.aten.${name}.default`);
    assert(found.kind === "missing", name);
    assertMatch(found.why, /run_decompositions\(\)/);
  }
});
