/** A span of time: milliseconds, or text such as `"500ms"`, `"30m"`, `"1h 30m"` or `"7d"`. */
export type Duration = number | string;

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const SPAN = /^(\s*\d+(\.\d+)?\s*(ms|s|m|h|d|w))+\s*$/;

/** A span in milliseconds. @throws RangeError if it is none. @internal */
export function millis(span: Duration): number {
  let ms = Number.NaN;
  if (typeof span === "number") ms = span;
  else if (SPAN.test(span)) {
    ms = 0;
    for (const [, count, , unit] of span.matchAll(/(\d+(\.\d+)?)\s*(ms|s|m|h|d|w)/g)) ms += Number(count) * UNITS[unit!]!;
  }
  if (ms >= 0 && ms < 1e15) return Math.round(ms);
  throw new RangeError(`${JSON.stringify(span)} is no span of time: write milliseconds, or text such as "30s" or "1h 30m"`);
}

/** Time of the monotonic clock, in milliseconds. @internal */
export const now = (): number => performance.now();

/** Ends after a span, or rejects once the signal is aborted. @internal */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = (): void => (clearTimeout(timer), reject(signal!.reason));
    const timer = setTimeout(() => (signal?.removeEventListener("abort", stop), resolve()), Math.min(ms, 2 ** 31 - 1));
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** The wait after a number of failures: 100 ms, doubled each time up to 5 s, by half at random. @internal */
export function backoff(tries: number): number {
  return Math.min(5000, 100 * 2 ** Math.min(tries, 6)) * (0.5 + Math.random() / 2);
}
