import { assertEquals } from "@std/assert";
import {
  commandWithoutSecrets,
  isSecretName,
  valuesWithoutSecrets,
  withoutSecrets,
} from "../../../core/base/secrets.ts";

Deno.test("names of secrets are told from names that only look like them", () => {
  const secret = [
    ...["WANDB_API_KEY", "HPCTRAIN_SECRET", "AWS_ACCESS_KEY_ID", "GITHUB_TOKEN", "PGPASSWORD", "SLURM_JWT"],
    ...["private_token", "X-Amz-Signature", "--api-key", "accessToken", "sig", "MYSQL_PWD", "PRIVATE-TOKEN"],
  ];
  const plain = [
    ...["--key-file", "--token-type", "--max-tokens", "tokenizer", "keys", "SSH_AUTH_SOCK", "SLURM_NTASKS"],
    ...["NCCL_DEBUG", "design", "stop-signals", "run-name"],
  ];
  assertEquals(secret.filter((name) => !isSecretName(name)), []);
  assertEquals(plain.filter(isSecretName), []);
});

const TEXTS: readonly (readonly [given: string, told: string])[] = [
  ["https://u:p@ss@host/x?private_token=abc&y=1", "https://***@host/x?private_token=***&y=1"],
  ["https://u:p/s@host:80/x", "https://***@host:80/x"],
  ["https://u:p?s#@host/x", "https://***@host/x"],
  ["https://host:80/@scope/package", "https://host:80/@scope/package"],
  ["https://host/@scope/package", "https://host/@scope/package"],
  ["WANDB_API_KEY=abc and the rest", "WANDB_API_KEY=*** and the rest"],
  ["export API_KEY='a b'; go", "export API_KEY=***; go"],
  [
    'curl -H "Authorization: Bearer abc" -H "PRIVATE-TOKEN: abc" x',
    'curl -H "Authorization: ***" -H "PRIVATE-TOKEN: ***" x',
  ],
  ["runs/sig=0.8/key=1/x.npz has 3 samples", "runs/sig=0.8/key=1/x.npz has 3 samples"],
  ["https://h/x?sig=a/b https://h/y/token=c", "https://h/x?sig=*** https://h/y/token=***"],
  ["send --api-key abc now", "send --api-key *** now"],
  ["export HPCTRAIN_SECRET=$(od -An /dev/urandom)", "export HPCTRAIN_SECRET=$(od -An /dev/urandom)"],
  [
    "There is no key: give --key-file FILE, --lr=1 or A=b",
    "There is no key: give --key-file FILE, --lr=1 or A=b",
  ],
];

for (const [given, told] of TEXTS) {
  Deno.test(`of the text ${given} is told ${told}`, () => assertEquals(withoutSecrets(given), told));
}

Deno.test("of a command line all values of secrets are left out, and of a job's variables each value", () => {
  const words = [
    "--lr=1",
    '--set=x.api_key=a b"c',
    "--api-key",
    "abc",
    "--env",
    "ANY=a b",
    "--env=B=c=d",
    "--env",
    "NAME",
  ];
  assertEquals(
    commandWithoutSecrets([
      ...words,
      "--set",
      "cluster.env=ANY=abc",
      "--data-path=https://h/z?sig=a&b=1",
      "--token",
      "--x",
    ]),
    [
      ...[
        "--lr=1",
        "--set=x.api_key=***",
        "--api-key",
        "***",
        "--env",
        "ANY=***",
        "--env=B=***",
        "--env",
        "NAME",
      ],
      ...["--set", "cluster.env=ANY=***", "--data-path=https://h/z?sig=***", "--token", "--x"],
    ],
  );
});

Deno.test("of settings the values stay but for secrets, and so do their kinds", () => {
  const config = {
    a: 1,
    b: [true, "API_KEY=x y", "NCCL_DEBUG=INFO"],
    c: { path: "https://u:p@h/x", none: null },
  };
  assertEquals(valuesWithoutSecrets(config), {
    a: 1,
    b: [true, "API_KEY=***", "NCCL_DEBUG=INFO"],
    c: { path: "https://***@h/x", none: null },
  });
});

Deno.test("folders that have a number in their names are no secrets: a run finds its data by them again", () => {
  const paths = [
    "/data/sig=0.8/maps.npz",
    "sig=0.8/maps.npz",
    "years/key=3/a.nc",
    "--data-path=/x/token=2/y",
  ];
  assertEquals(valuesWithoutSecrets(paths), paths);
  assertEquals(valuesWithoutSecrets("https://h/z?x=1&sig=a/b"), "https://h/z?x=1&sig=***");
});
