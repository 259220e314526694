// The linter of lengths: a function is read at once, so it has at most 100 lines. A plugin of `deno lint`.
import { fromFileUrl, relative } from "../deps/path.ts";

/** From a function's first line to its closing brace. */
const MOST_LINES = 100;

const FOLDERS = /^(core|ffi|commands|extensions\/[^/]+(?!\/tests\/))\//;

const ROOT = fromFileUrl(new URL("..", import.meta.url));

type AnyFunction =
  | Deno.lint.FunctionDeclaration
  | Deno.lint.FunctionExpression
  | Deno.lint.ArrowFunctionExpression;

/** A page's script is one function that is called where it stands: the file's own scope, and no function of it. */
const isFile = ({ parent }: AnyFunction): boolean =>
  parent.type === "CallExpression" && parent.parent.type === "ExpressionStatement" &&
  parent.parent.parent.type === "Program";

const plugin: Deno.lint.Plugin = {
  name: "hpctrain",
  rules: {
    "function-length": {
      create(context) {
        const file = relative(ROOT, context.filename);
        if (!FOLDERS.test(file)) return {};
        const judge = (node: AnyFunction) => {
          const lines = context.sourceCode.getText(node).split("\n").length;
          if (lines <= MOST_LINES || isFile(node)) return;
          context.report({
            node,
            message: `This function has ${lines} lines, and may have ${MOST_LINES}.`,
            hint: "Name its parts: functions of their own, or methods of a class in place of a closure.",
          });
        };
        return { FunctionDeclaration: judge, FunctionExpression: judge, ArrowFunctionExpression: judge };
      },
    },
  },
};

export default plugin;
