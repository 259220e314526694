// A clock that is set by hand, in milliseconds. Test helper.
export function byHand() {
  let time = 1000;
  return { now: () => time, pass: (milliseconds: number) => void (time += milliseconds) };
}
