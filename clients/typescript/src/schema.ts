/** The part of Standard Schema (https://standardschema.dev) that is used: zod, valibot, arktype and others have it. */
export interface Schema<Output> {
  readonly "~standard": {
    readonly validate: (value: unknown) => Validated<Output> | Promise<Validated<Output>>;
  };
}

type Validated<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: ReadonlyArray<{ readonly message: string; readonly path?: ReadonlyArray<unknown> | undefined }> };

/** A message or reply by its content type: text, JSON, or bytes if it is neither. @internal */
export function decoded(body: Uint8Array | string, contentType = ""): unknown {
  const isText = /^text\//i.test(contentType);
  if (!isText && contentType && !/\bjson\b/i.test(contentType)) return body;
  try {
    const text = typeof body === "string" ? body : new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
    return isText ? text : JSON.parse(text);
  } catch {
    return body;
  }
}

/** The message of a handler. @throws Error that says why it cannot be read. @internal */
export async function readMessage<M>(body: Uint8Array, contentType: string, schema?: Schema<M>): Promise<M> {
  const value = decoded(body, contentType);
  if (value instanceof Uint8Array) throw new Error("it is no JSON; a handler with `raw: true` gets the bytes");
  if (!schema) return value as M;
  const validated = await schema["~standard"].validate(value);
  if (!validated.issues) return validated.value;
  const part = (key: unknown): unknown => (typeof key === "object" && key && "key" in key ? key.key : key);
  const issues = validated.issues.map(({ message, path }) => (path?.length ? `${path.map(part).join(".")}: ` : "") + message);
  throw new Error(issues.join("; "));
}
