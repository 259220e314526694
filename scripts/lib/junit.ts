// Reads the test results that `deno test --junit-path` writes.

export interface TestResult {
  file: string;
  name: string;
  seconds: number;
  outcome: "passed" | "failed" | "skipped";
}

export function parseJunit(xml: string): TestResult[] {
  const cases = xml.matchAll(/<testcase\b([^>]*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g);
  return [...cases].map(([, attributes, body = ""]) => {
    const attribute = (key: string) =>
      unescape(new RegExp(`\\b${key}="([^"]*)"`).exec(attributes)?.[1] ?? "");
    return {
      file: attribute("classname"),
      name: attribute("name"),
      seconds: Number(attribute("time")),
      outcome: /<(failure|error)\b/.test(body) ? "failed" : /<skipped\b/.test(body) ? "skipped" : "passed",
    };
  });
}

function unescape(text: string): string {
  const named: Record<string, string> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };
  return text.replace(
    /&(?:#x([0-9a-f]+)|#(\d+)|(\w+));/gi,
    (all, hex, decimal, name) =>
      hex
        ? String.fromCodePoint(parseInt(hex, 16))
        : decimal
        ? String.fromCodePoint(+decimal)
        : named[name] ?? all,
  );
}
