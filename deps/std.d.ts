// The types of those parts of the standard library that are used: the npm package is plain JavaScript. JSR's packages
// bring their own.

// async
export function delay(milliseconds: number, options?: { signal?: AbortSignal }): Promise<void>;

// streams
export class TextLineStream extends TransformStream<string, string> {
  constructor(options?: { allowCR?: boolean });
}

// assert
type ErrorClass<E extends Error> = abstract new (...args: never[]) => E;
export class AssertionError extends Error {}
export function assert(value: unknown, message?: string): asserts value;
export function assertAlmostEquals(
  actual: number,
  expected: number,
  tolerance?: number,
  message?: string,
): void;
export function assertEquals<T>(actual: T, expected: T, message?: string): void;
export function assertMatch(actual: string, expected: RegExp, message?: string): void;
export function assertNotEquals<T>(actual: T, expected: T, message?: string): void;
export function assertNotMatch(actual: string, expected: RegExp, message?: string): void;
export function assertRejects(body: () => PromiseLike<unknown>, message?: string): Promise<unknown>;
export function assertRejects<E extends Error>(
  body: () => PromiseLike<unknown>,
  errorClass: ErrorClass<E>,
  includes?: string,
  message?: string,
): Promise<E>;
export function assertStrictEquals<T>(actual: unknown, expected: T, message?: string): asserts actual is T;
export function assertStringIncludes(actual: string, expected: string, message?: string): void;
export function assertThrows(body: () => unknown, message?: string): unknown;
export function assertThrows<E extends Error>(
  body: () => unknown,
  errorClass: ErrorClass<E>,
  includes?: string,
  message?: string,
): E;
export function equal(actual: unknown, expected: unknown): boolean;
