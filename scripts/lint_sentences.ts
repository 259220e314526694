// The linter of sentences in tests: an assertion names a sentence of the program, and its words stand in
// tests/sentences.golden.json, where another wording is one change. A plugin of `deno lint`.
import { fromFileUrl, relative } from "../deps/path.ts";

/** Shorter ones are a flag, a value or a few words, which a test may well pin. */
const LEAST = 50;
const WORDS_IN_A_ROW = /[A-Za-z',;.:]+ (?=[a-z]+)/g;
const LEAST_WORDS = 4;

const TESTS = /^(tests|extensions\/[^/]+\/tests)\//;
/** A regular expression of words, with any text between some: what the file of sentences says, too. */
const PLAIN = /^\^?(?:[^\\[\](){}|+*?^$.…]|\\[^A-Za-z0-9]|(?<!^)\.\*\??(?!$))*\$?$/;
/** These end in what to print where the assertion fails; the number is that of the arguments before it. */
const COMPARED: Readonly<Record<string, number>> = { assert: 1, assertThrows: 3, assertRejects: 3 };
/** A method of a text or a list: its own words and those of its arguments are compared. */
const OF_TEXT = ["includes", "startsWith", "endsWith", "join", "some", "every"];

const ROOT = fromFileUrl(new URL("..", import.meta.url));

const plugin: Deno.lint.Plugin = {
  name: "sentences",
  rules: {
    "pinned-sentence": {
      create(context) {
        if (!TESTS.test(relative(ROOT, context.filename))) return {};
        return {
          CallExpression({ callee, arguments: given }) {
            if (callee.type !== "Identifier" || !/^(assert|refused$)/.test(callee.name)) return;
            if (/^assert(Sentence|Refusal)$/.test(callee.name)) return;
            const compared = given.slice(0, COMPARED[callee.name] ?? 2);
            for (const node of compared.flatMap(literals)) {
              if (callee.name === "refused" && node.type === "Literal" && typeof node.value !== "string") {
                continue;
              }
              const text = wordsOf(node)!;
              if (text.length < LEAST || (text.match(WORDS_IN_A_ROW) ?? []).length < LEAST_WORDS) continue;
              context.report({
                node,
                message: "This test pins the words of a sentence.",
                hint: "Name it: assertSentence, assertRefusal or sentenceNamed of tests/sentences.ts.",
              });
            }
          },
        };
      },
    },
  },
};

export default plugin;

/** The words of a literal, also of one in parts, without what is filled in. */
function wordsOf(node: Deno.lint.Node): string | undefined {
  if (node.type === "Literal") {
    if (typeof node.value === "string") return node.value;
    const { pattern, flags } = ("regex" in node && node.regex) || { pattern: "", flags: "" };
    if (pattern === "" || flags !== "" || !PLAIN.test(pattern)) return undefined;
    return pattern.replace(/^\^|\$$/g, "").replace(/\.\*\??/g, "…").replace(/\\n/g, " ").replace(
      /\\(.)/g,
      "$1",
    );
  }
  if (node.type === "TemplateLiteral") return node.quasis.map(({ cooked }) => cooked).join("");
  if (node.type !== "BinaryExpression" || node.operator !== "+") return undefined;
  const parts = [node.left, node.right].map(wordsOf);
  return parts.every((part) => part === undefined) ? undefined : parts.join("");
}

/** The literals that are compared: in lists, records and either branch, but not what a function is called with. */
function literals(node: Deno.lint.Node | null): Deno.lint.Node[] {
  if (node === null) return [];
  if (wordsOf(node) !== undefined) return [node];
  switch (node.type) {
    case "ArrayExpression":
      return node.elements.flatMap(literals);
    case "ObjectExpression":
      return node.properties.flatMap((p) => literals(p.type === "Property" ? p.value : p.argument));
    case "ConditionalExpression":
      return [node.consequent, node.alternate].flatMap(literals);
    case "LogicalExpression":
      return [node.left, node.right].flatMap(literals);
    case "UnaryExpression":
    case "SpreadElement":
      return literals(node.argument);
    case "ArrowFunctionExpression":
      return literals(node.body);
    case "CallExpression": {
      const { callee } = node;
      const ofText = callee.type === "MemberExpression" && callee.property.type === "Identifier" &&
        OF_TEXT.includes(callee.property.name);
      return ofText ? [callee.object, ...node.arguments].flatMap(literals) : [];
    }
    default:
      return [];
  }
}
